"""Python imports this by itself where its folder is on PYTHONPATH: the client's and the worker's way into the twin."""

from tests.serverless.twin import install

install()
