// Package reference is all reference reconcilers that come with us: those of the operators this project was made for, as they were
// when they failed and as they were mended, and those of the patterns by which other operators have failed.
package reference

import (
	"path"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/scenarios/leaderworkerset"
	"github.com/stalemate-dev/stalemate/scenarios/ondelete"
	"github.com/stalemate-dev/stalemate/scenarios/patterns"
	"github.com/stalemate-dev/stalemate/scenarios/seinode"
	"github.com/stalemate-dev/stalemate/scenarios/track"
)

// Folder is one of the folders beside this one, with reconcilers and their scenarios.
type Folder struct {
	// Name is the folder's name, with which the names of its reconcilers begin.
	Name string
	// Title is what the reconcilers are, for a reader.
	Title string
	// Register adds the reconcilers to a registry.
	Register func(*scenarios.Registry)
	// Track returns what is found in them, and in which nothing is.
	Track func() []track.Row
}

// Folders returns all folders, in the order that reports have them in.
func Folders() []Folder {
	return []Folder{
		{"clickhouse", "ClickHouse operator", clickhouse.Register, clickhouse.Track},
		{"ondelete", "OnDelete", ondelete.Register, ondelete.Track},
		{"leaderworkerset", "LeaderWorkerSet", leaderworkerset.Register, leaderworkerset.Track},
		{"seinode", "SeiNode", seinode.Register, seinode.Track},
		{"patterns", "Patterns", patterns.Register, patterns.Track},
	}
}

// Register adds all reference reconcilers to a registry, and their track record as the variants that scenarios are explored with.
func Register(r *scenarios.Registry) {
	for _, folder := range Folders() {
		folder.Register(r)
		for _, row := range folder.Track() {
			r.AddVariant(scenarios.Variant{
				Scenario: path.Join(folder.Name, row.Scenario), Reconcilers: row.Reconcilers(), Breaks: row.Breaks, Runs: row.Runs, Doc: row.Bug,
			})
		}
	}
}
