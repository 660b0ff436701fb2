// Package explore runs a scenario in many orders and with many faults, and says what it found.
//
// First the default order, several times: the histories must be the same. Then the schedules that found something once. Then
// the sweep: every feasible reorder of two conflicting steps of the default run, and every fault of the scenario's rules at
// every event of it, one at a time, so that when it ends "no bug needs just one of these" is a fact about the scenario, at
// constant latency and within the bound on holds. Calls that only a swept run makes get their faults, too. Then runs by seed,
// in which PCT, selective PCT and random walks take turns, with rules switched on and off.
//
// [Run] does all that in one go. A [Session] does it in units, which may be spread over processes and machines: what each unit comes to
// is a [Part], and parts merge. The findings of the whole are the same however it was divided.
//
// What fails by a strategy is written as constraints, faults and latencies against the default order, and shrunk: a finding
// is a schedule that [Replay] can play, and the same bug is one finding by however many ways it is met.
package explore
