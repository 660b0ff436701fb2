package sim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Epoch is the virtual time at which every world begins. It lies in the future, so that nothing a process computed
// before its bubble, a timestamp in a package variable for instance, lies ahead of it.
var Epoch = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)

// StuckError says that a run came to a standstill in real time: a goroutine of the operator waits for something that
// the bubble cannot give it, as a lock that another one holds across a call, or spins.
type StuckError struct {
	// Timeout is the real time that passed without a step.
	Timeout time.Duration
	// Goroutines describe the goroutines that are not durably blocked: what each waits for, and where.
	Goroutines []string
	// Stacks is the dump of all goroutines.
	Stacks string
}

// Error implements error.
func (e *StuckError) Error() string {
	text := fmt.Sprintf("run is stuck: no step for %s of real time", e.Timeout)
	if len(e.Goroutines) > 0 {
		text += "; not durably blocked: " + strings.Join(e.Goroutines, "; ")
	}
	return text
}

// leakError says that goroutines of a program were still there when the run had ended: they wait for what never comes, or
// sleep for longer than the run goes on for them.
type leakError struct{ bubble string }

// Error implements error.
func (e *leakError) Error() string {
	return "bubble: deadlock: goroutines that never end: " + strings.Join(e.goroutines(), "; ")
}

// bubble calls f in a bubble of its own, with virtual time, and returns when all its goroutines have exited. A bubble
// that is stuck in real time is abandoned with a [StuckError]: its goroutines cannot be stopped.
//
// synctest.Test asks for a *testing.T, but uses it only to report a failure of f's own T, so that a zero one does; a
// test of this package pins that. It is never handed to anybody, as its methods would crash. f must not panic.
func bubble(progress *atomic.Int64, timeout time.Duration, f func()) error {
	done := make(chan error, 1)
	go func() {
		finished, id := false, ""
		defer func() {
			switch value := recover(); {
			case value != nil && finished:
				done <- &leakError{id}
			case value != nil:
				done <- fmt.Errorf("bubble: %v", value)
			case !finished:
				done <- errors.New("bubble: its main goroutine exited")
			default:
				done <- nil
			}
		}()
		synctest.Test(new(testing.T), func(*testing.T) {
			id = bubbleID()
			time.Sleep(time.Until(Epoch)) // of virtual time: a bubble begins in the year 2000
			exited := make(chan struct{})
			go func() { // the zero T cannot bear the exit of its own goroutine, as by a FailNow in a racer of a test
				defer close(exited)
				f()
				finished = true
			}()
			<-exited
		})
	}()
	if beingDebugged() {
		return <-done
	}
	return watch(progress, timeout, done)
}

// watch waits for the bubble, as long as it makes progress in real time.
func watch(progress *atomic.Int64, timeout time.Duration, done <-chan error) error {
	ticker := time.NewTicker(timeout)
	defer ticker.Stop()
	seen := int64(-1)
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			now := progress.Load()
			if now == seen {
				return stuck(timeout)
			}
			seen = now
		}
	}
}

// ownHeader returns the header of the caller's stack: "goroutine 35 [running, synctest bubble 3]:", and what follows.
func ownHeader() string {
	var header [64]byte
	return string(header[:runtime.Stack(header[:], false)])
}

// goroutineID returns what tells the caller's goroutine from others: "goroutine 35".
func goroutineID() string {
	id, _, _ := strings.Cut(ownHeader(), " [")
	return id
}

// bubbleID returns what stacks call the bubble that the caller is in: "synctest bubble 3".
func bubbleID() string {
	_, id, _ := strings.Cut(ownHeader(), ", ")
	id, _, _ = strings.Cut(id, "]")
	return id
}

// goroutines describes those that are left of the bubble. It takes the longer the more there are in the whole program.
func (e *leakError) goroutines() []string {
	var texts []string
	of := func(state string) bool { return strings.HasSuffix(state, e.bubble) }
	for _, g := range describe(stacks(), of) {
		state, _, _ := strings.Cut(g.state, " (durable)")
		texts = append(texts, state+" in "+g.frame)
	}
	slices.Sort(texts)
	return texts
}

// goroutineHeader matches "goroutine 35 [sync.Mutex.Lock, 2 minutes, synctest bubble 3]:". A goroutine that is durably
// blocked says so in its state.
var goroutineHeader = regexp.MustCompile(`^goroutine (\d+)(?: gp=\S+ m=\S+(?: mp=\S+)?)? \[(.*synctest bubble \d+.*)\]:$`)

// stuck describes what every goroutine in a bubble waits for that is not durably blocked.
func stuck(timeout time.Duration) *StuckError {
	text := stacks()
	result := &StuckError{Timeout: timeout, Stacks: string(text)}
	awake := func(state string) bool {
		return !strings.Contains(state, "durable") && !strings.HasPrefix(state, "synctest.")
	}
	for _, g := range describe(text, awake) {
		result.Goroutines = append(result.Goroutines, fmt.Sprintf("goroutine %s [%s] in %s", g.number, g.state, g.frame))
	}
	return result
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	text := make([]byte, 4<<20)
	return text[:runtime.Stack(text, true)]
}

// goroutine is one in a bubble: what it waits for, and where.
type goroutine struct{ number, state, frame string }

// describe finds the goroutines in bubbles whose state is of interest.
func describe(stacks []byte, interesting func(state string) bool) []goroutine {
	var found []goroutine
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		lines := bufio.NewScanner(bytes.NewReader(stack))
		if !lines.Scan() {
			continue
		}
		header := goroutineHeader.FindStringSubmatch(lines.Text())
		if header != nil && interesting(header[2]) {
			found = append(found, goroutine{header[1], header[2], userFrame(lines)})
		}
	}
	return found
}

// userFrame returns the first frame of a stack outside the runtime and the synchronisation packages, with its position.
func userFrame(lines *bufio.Scanner) string {
	for lines.Scan() {
		function := lines.Text()
		if !lines.Scan() {
			return function
		}
		name, _, _ := strings.Cut(function, "(")
		if slices.ContainsFunc([]string{"runtime.", "sync.", "internal/", "time."}, func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		}) {
			continue
		}
		position, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " +0x")
		return name + " at " + position
	}
	return "unknown"
}

// beingDebugged reports whether a debugger traces the process: then time stands still for reasons of its own.
var beingDebugged = sync.OnceValue(func() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if tracer, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			return strings.TrimSpace(tracer) != "0"
		}
	}
	return false
})
