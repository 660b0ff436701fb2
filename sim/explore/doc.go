// Package explore runs a scenario in many orders and says what it found.
//
// First the default order, several times: the histories must be the same. Then the sweep: every feasible reorder of two
// conflicting steps of that run, one at a time, so that when it ends "no bug needs just one of these" is a fact about
// the scenario, at constant latency and within the bound on holds. Then random walks, one for each seed.
package explore
