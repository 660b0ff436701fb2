package sim

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs f in a bubble, and fails if it does not end.
func inBubble(t *testing.T, f func()) error {
	t.Helper()
	return bubble(&atomic.Int64{}, time.Minute, f)
}

// TestBubbleWithoutATest pins what bubble relies on and package testing/synctest does not promise: Test works with a zero
// testing.T, in a goroutine that no test runs in, one after the other and side by side.
func TestBubbleWithoutATest(t *testing.T) {
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 10 {
				ran := false
				synctest.Test(new(testing.T), func(*testing.T) {
					begin := time.Now()
					time.Sleep(time.Hour)
					ran = time.Since(begin) == time.Hour
				})
				if !ran {
					t.Error("a bubble with a zero testing.T did not run, or its time is not virtual")
				}
			}
		})
	}
	wait.Wait()
}

// TestBubbleEpoch checks that every bubble begins at the same instant, which no clock outside has reached.
func TestBubbleEpoch(t *testing.T) {
	for range 3 {
		var at time.Time
		if err := inBubble(t, func() { at = time.Now() }); err != nil {
			t.Fatal(err)
		}
		if !at.Equal(Epoch) || !at.After(time.Now()) {
			t.Errorf("a bubble begins at %s, want %s", at, Epoch)
		}
	}
}

// TestBubbleErrors checks that what goes wrong in a bubble becomes an error, and leaves the process able to run others.
func TestBubbleErrors(t *testing.T) {
	tests := []struct {
		name string
		f    func()
		want string
	}{
		{"a goroutine is left behind", func() { go func() { select {} }() }, "never end"},
		{"a deadlock", func() { <-make(chan int) }, "deadlock"},
		{"a lock that nobody unlocks", func() {
			condition := sync.NewCond(&sync.Mutex{})
			condition.L.Lock()
			condition.Wait()
		}, "deadlock"},
		{"an exit of the main goroutine", func() { runtime.Goexit() }, "exited"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := inBubble(t, test.f); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
			if err := inBubble(t, func() {}); err != nil {
				t.Errorf("the next bubble ends with %v", err)
			}
		})
	}
}

// TestBubbleProgress checks that the watchdog counts steps, and not time: a run that goes on is not stuck.
func TestBubbleProgress(t *testing.T) {
	progress := &atomic.Int64{}
	ticks := make(chan struct{})
	go func() {
		defer close(ticks)
		for range 20 {
			progress.Add(1)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	done := make(chan error, 1)
	go func() {
		<-ticks
		done <- nil
	}()
	if err := watch(progress, 50*time.Millisecond, done); err != nil {
		t.Errorf("a run that makes progress ends with %v", err)
	}
	err := watch(progress, 10*time.Millisecond, make(chan error))
	if _, ok := errors.AsType[*StuckError](err); !ok {
		t.Errorf("a run that makes none ends with %v, want a StuckError", err)
	}
}
