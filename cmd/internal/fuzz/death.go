package fuzz

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// DeathKind says how a run ended its process, or what it did to it.
type DeathKind string

// The kinds of deaths.
const (
	Panic  DeathKind = "panic"  // a panic in a goroutine of the operator's own, or a fatal error of the Go runtime
	Exit   DeathKind = "exit"   // os.Exit, log.Fatal and the like
	Hang   DeathKind = "hang"   // no step any more: a lock held over a call, or a goroutine that spins
	Memory DeathKind = "memory" // more memory than a worker may have
	Leak   DeathKind = "leak"   // goroutines that never end: the process goes on
	Killed DeathKind = "killed" // by a signal
)

// Death is what a run did to the process it was in: a finding, too, though no property says so.
type Death struct {
	Kind DeathKind `json:"kind"`
	// Where says which function or goroutine did it, so far as that is known; deaths of a target that agree in it and in the kind are one
	// finding.
	Where string `json:"where"`
	// Output is what the process last wrote to stderr: stacks, for the most part.
	Output string `json:"output,omitempty"`
	// Unit is the key of the unit, and Opening says that it had not begun: the subject was being opened.
	Unit    string `json:"unit"`
	Opening bool   `json:"opening,omitempty"`
	// Flight is the execution.
	Flight flight `json:"flight"`
	// Schedule brings it about: with a trace, if it was a run by seed.
	Schedule *schedule.Schedule `json:"schedule"`
	// Repeated says that it came about a second time, when the execution was repeated; Skipped that the execution was left out after it.
	Repeated bool `json:"repeated"`
	Skipped  bool `json:"skipped"`
}

// id tells the findings of a target apart.
func (d *Death) id() string {
	sum := sha256.Sum256([]byte(string(d.Kind) + "\n" + d.Where))
	return hex.EncodeToString(sum[:4])
}

// forget drops what only the first death of a finding is asked for, which is nearly all that a death takes: an operator may die in every
// other unit of a night. What is left says what is left out of its unit, and counts.
func (d *Death) forget() { d.Output, d.Schedule, d.Flight.Schedule = "", nil, nil }

// Text says in a line what happened.
func (d *Death) Text() string {
	switch d.Kind {
	case Panic:
		return "a goroutine of the operator's own panics: " + d.Where
	case Exit:
		return "the operator ends its process: " + d.Where
	case Hang:
		return "the operator hangs: " + d.Where
	case Memory:
		return "the operator takes memory without end: " + d.Where
	case Leak:
		return "the operator leaves goroutines behind: " + d.Where
	default:
		return "the process is killed: " + d.Where
	}
}

// origin says which execution it was, in words.
func (d *Death) origin() string {
	f := &d.Flight
	switch {
	case d.Opening || f.Purpose == explore.Settling:
		return "while the scenario was opened, in its default order"
	case strings.HasPrefix(d.Unit, keySeeds):
		return fmt.Sprintf("%s, seed %d", f.Strategy, f.Seed)
	default:
		return fmt.Sprintf("%s, execution %d", f.Strategy, f.Number)
	}
}

// compareDeaths orders deaths by where they come in an exploration, whatever order units are done in.
func compareDeaths(a, b *Death) int {
	if d := strings.Compare(a.place(), b.place()); d != 0 {
		return d
	}
	return a.Flight.Number - b.Flight.Number
}

// place is the unit's in an order by text.
func (d *Death) place() string {
	switch {
	case d.Opening:
		return "0"
	case d.Unit == keySweeps:
		return "1"
	case d.Unit == keyCorpus:
		return "2"
	default:
		return "3" + d.Unit
	}
}

// deathOf says what ended a process by itself: from how it ended, and what it wrote.
func deathOf(state *os.ProcessState, output string) *Death {
	d := &Death{Kind: Exit, Output: output}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		d.Kind, d.Where = Killed, "signal "+status.Signal().String()
	case panicText.MatchString(output):
		d.Kind, d.Where = Panic, panicOf(output)
		d.Output = output[panicText.FindStringIndex(output)[0]:]
	default:
		d.Where = fmt.Sprintf("exit code %d", state.ExitCode())
		if last := lastLine(output); last != "" {
			d.Where += ", its last words: " + last
		}
	}
	return d
}

// panicText begins what the runtime writes of a panic that nobody recovers, or of a fatal error.
var panicText = regexp.MustCompile(`(?m)^(panic|fatal error): `)

// panicOf returns what a panic is told apart by: its text, and the first function of the stack that is not the runtime's.
func panicOf(output string) string {
	output = output[panicText.FindStringIndex(output)[0]:]
	text, rest, _ := strings.Cut(output, "\n")
	text = addresses.ReplaceAllString(strings.TrimPrefix(strings.TrimPrefix(text, "panic: "), "fatal error: "), "0x?")
	_, stack, found := strings.Cut(rest, "[running")
	if !found {
		return text
	}
	lines := strings.Split(stack, "\n")
	for i := 1; i+1 < len(lines); i += 2 {
		function, _, _ := strings.Cut(lines[i], "(0x")
		if strings.HasPrefix(function, "panic(") || strings.HasPrefix(function, "runtime.") || function == "" {
			continue
		}
		position, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
		return fmt.Sprintf("%s, in %s at %s", text, strings.TrimSuffix(function, "(...)"), position)
	}
	return text
}

var (
	// addresses and numbers differ from one process to the next.
	addresses        = regexp.MustCompile(`0x[0-9a-f]+`)
	goroutineNumbers = regexp.MustCompile(`goroutine \d+`)
	bubbleNumbers    = regexp.MustCompile(`, synctest bubble \d+`)
)

// hangOf makes a death of what the watchdog in the worker found.
func hangOf(s *stuck) *Death {
	var where []string
	for _, g := range s.Goroutines {
		g = goroutineNumbers.ReplaceAllString(bubbleNumbers.ReplaceAllString(g, ""), "goroutine")
		where = append(where, waits.ReplaceAllString(g, ""))
	}
	slices.Sort(where)
	where = slices.Compact(where)
	if len(where) == 0 {
		where = []string{fmt.Sprintf("no step for %s", s.Timeout)}
	}
	return &Death{Kind: Hang, Where: strings.Join(where, "; "), Output: s.Stacks}
}

// waits is for how long a goroutine has waited, as stacks tell it.
var waits = regexp.MustCompile(`, \d+ minutes`)

// busyIn returns the goroutines of bubbles that were running or about to, in the stacks that a process wrote when it was asked to.
func busyIn(stacks string) string {
	var busy []string
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		header, rest, _ := strings.Cut(strings.TrimLeft(stack, "\n"), "\n")
		if !strings.HasPrefix(header, "goroutine ") || !strings.Contains(header, "synctest bubble") ||
			!strings.Contains(header, "[runn") {
			continue
		}
		lines := strings.Split(rest, "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			function, _, _ := strings.Cut(lines[i], "(")
			if strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "internal/") || strings.HasPrefix(function, "sync.") {
				continue
			}
			position, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			busy = append(busy, fmt.Sprintf("%s at %s", function, position))
			break
		}
	}
	slices.Sort(busy)
	return strings.Join(slices.Compact(busy), "; ")
}

// lastLine returns the last line of a text that has anything in it, without the time that package log puts in front.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return logTime.ReplaceAllString(strings.TrimSpace(lines[len(lines)-1]), "")
}

// logTime is what package log begins lines with.
var logTime = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d+)? `)
