// Package fuzz explores many scenarios for hours, in processes that may die.
//
// A supervisor shares the work out to workers: the program itself, started again with the hidden command "worker". Work is cut into
// units, see package explore: what a unit comes to depends on the scenario and the unit only, so that it makes no difference which
// worker does it, how many there are, in which order they come, and whether one has to be done again. What a run is about to do is on
// disk before it does it, and what a unit came to is on disk before the next one is given out: so a worker that dies costs the one
// run that killed it, and a supervisor that dies nothing at all.
//
//	supervisor ──task──► worker      explores one unit; black box: the run that is about to begin
//	           ◄─reply──             findings at once, in the end the part that the unit came to
//	    │
//	    ├─ state    the parts of all units, each in a file of its own; resumed from there
//	    ├─ corpus   schedules that reached something new, one YAML file each
//	    └─ findings schedules that break something, and reports of runs that killed their worker
package fuzz
