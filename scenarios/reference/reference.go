// Package reference is all reference reconcilers that come with us: those of the operators this project was made for, as they were
// when they failed and as they were mended, those of the patterns by which other operators have failed, and those of the tutorial.
package reference

import (
	"path"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/scenarios/example"
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
	// Example says that what is found was put there, for the tutorial.
	Example bool
}

// Folders returns all folders, in the order that reports have them in.
func Folders() []Folder {
	return []Folder{
		{Name: "clickhouse", Title: "ClickHouse operator", Register: clickhouse.Register, Track: clickhouse.Track},
		{Name: "ondelete", Title: "OnDelete", Register: ondelete.Register, Track: ondelete.Track},
		{Name: "leaderworkerset", Title: "LeaderWorkerSet", Register: leaderworkerset.Register, Track: leaderworkerset.Track},
		{Name: "seinode", Title: "SeiNode", Register: seinode.Register, Track: seinode.Track},
		{Name: "patterns", Title: "Patterns", Register: patterns.Register, Track: patterns.Track},
		{Name: "example", Title: "Tutorial", Register: example.Register, Track: example.Track, Example: true},
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
