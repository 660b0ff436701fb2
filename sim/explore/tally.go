package explore

import (
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Tally counts what was explored. Tallies add up, in any order.
type Tally struct {
	Executions   int `json:"executions"`
	Inconclusive int `json:"inconclusive,omitempty"`
	// Skipped counts the executions that were left out, see [Unit.Skip].
	Skipped int `json:"skipped,omitempty"`
	// Hash is the sum of the hashes of the histories.
	Hash uint64 `json:"hash"`
	// Strategies are the accounts of the strategies, in the order in which [Run] takes them.
	Strategies []history.StrategyResult   `json:"strategies,omitempty"`
	Properties []history.PropertyCoverage `json:"properties,omitempty"`
	// Writes are the operator's writes, and whether one was ever overtaken.
	Writes map[string]bool  `json:"writes,omitempty"`
	Denied []history.Denial `json:"denied,omitempty"`
	Gaps   []string         `json:"gaps,omitempty"`
	// Problems counts in how many executions each came up.
	Problems map[string]int `json:"problems,omitempty"`
	Rules    []RuleTally    `json:"rules,omitempty"`
	// Sites are the call sites, and what each fault of each rule did there; sorted.
	Sites []SiteTally `json:"sites,omitempty"`
}

// RuleTally counts what a fault rule did.
type RuleTally struct {
	history.RuleResult
	// Types are the faults that it has, and Never those of them that struck nowhere.
	Types []schedule.FaultType `json:"types,omitempty"`
}

// SiteTally counts what the faults of one type of a rule did at a call site, over all executions.
type SiteTally struct {
	Rule string             `json:"rule"`
	Type schedule.FaultType `json:"type"`
	// Site is the call: "operator Update StatefulSet default/web", by whatever reconcile, start and however often.
	Site string `json:"site"`
	// Eligible counts the calls at which the fault could have struck, Struck those at which it did.
	Eligible int `json:"eligible"`
	Struck   int `json:"struck"`
}
