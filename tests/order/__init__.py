"""In which order tests run, in which processes and on which day: by what each costs. And how far a run is."""
