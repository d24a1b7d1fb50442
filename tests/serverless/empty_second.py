"""In the worker: the first action on a batch sees its rows, every later one none, as one account tells of serverless.
From which batch of the worker on, the variable says.

The batch passes through a filter that asks a property of the server's JVM while it runs; an action, once over, sets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any


@dataclass
class _Batch:
    session: Any = None
    # The property of the batch that has seen no action yet.
    fresh: str = ""

    def is_acted_on(self, plan: str) -> bool:
        # A MERGE names a view of the batch, and not the batch.
        return bool(self.fresh) and (
            "MERGE INTO" in plan or (self.fresh in plan and "create_dataframe_view" not in plan)
        )

    def is_over(self) -> None:
        done, self.fresh = self.fresh, ""
        self.session.sql(f"SELECT reflect('java.lang.System', 'setProperty', '{done}', 'true')").collect()


def install(first: int) -> None:
    from pyspark.sql.connect.client.core import SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    give, batch, numbers = SparkSession._create_remote_dataframe, _Batch(), count(1)

    def begin(self: Any, key: str) -> Any:
        if next(numbers) < first:
            return give(self, key)
        batch.session, batch.fresh = self, f"twin.{key}"
        return give(self, key).where(f"reflect('java.lang.Boolean', 'getBoolean', '{batch.fresh}') = 'false'")

    SparkSession._create_remote_dataframe = begin  # type: ignore[method-assign,assignment]
    for name in ("execute_command", "to_table"):
        setattr(SparkConnectClient, name, _watched(getattr(SparkConnectClient, name), batch))


def _watched(method: Any, batch: _Batch) -> Any:
    def act(self: Any, plan: Any, *rest: Any, **named: Any) -> Any:
        done = method(self, plan, *rest, **named)
        if batch.is_acted_on(str(plan)):
            batch.is_over()
        return done

    return act
