package fuzz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// flight is an execution, as it is written down before it begins.
type flight struct {
	// Opening says that it is one of those that opening the subject takes; else it is one of the unit.
	Opening  bool            `json:"opening,omitempty"`
	Number   int             `json:"number"`
	Purpose  explore.Purpose `json:"purpose"`
	Strategy string          `json:"strategy"`
	Seed     int64           `json:"seed"`
	// Schedule is what is known of the run before it is made.
	Schedule *schedule.Schedule `json:"schedule,omitempty"`
}

// blackBox is the file in which a worker writes down what is about to run, so that it is known when the worker dies of it. It is
// written over, without waiting for the disk: it is to outlast the process, not the machine.
type blackBox struct {
	file *os.File
	// count tells one state of the file from the next.
	count int64
	// choices has the choices of the execution that is traced, see [blackBox.trace].
	choices *os.File
	told    traced
}

// boxHeader is what a black box begins with: how often it was written, and the length of what follows, in bytes.
const boxHeader = "%020d %010d\n"

// headerSize is the length of a header, in bytes.
const headerSize = 20 + 1 + 10 + 1

// choicesFile is where the choices go that belong to a black box.
func choicesFile(box string) string { return box + ".choices" }

// openBlackBox begins a black box.
func openBlackBox(name string) (*blackBox, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("black box: %w", err)
	}
	return &blackBox{file: file}, nil
}

// begin writes down what is about to run; nil for nothing.
func (b *blackBox) begin(f *flight) error {
	content, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("black box: %w", err)
	}
	b.count++
	// One call writes all of it: a process that is killed has made it, or has not.
	_, err = b.file.WriteAt(append(fmt.Appendf(nil, boxHeader, b.count, len(content)), content...), 0)
	return err
}

// readBlackBox returns what was about to run, nil for nothing. A file that is not whole is an error.
func readBlackBox(name string) (*flight, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var count, length int64
	if _, err := fmt.Sscanf(string(content[:min(len(content), headerSize)]), boxHeader, &count, &length); err != nil {
		return nil, fmt.Errorf("%s: no black box: %w", name, err)
	}
	content = content[min(len(content), headerSize):]
	if length < 0 || int64(len(content)) < length {
		return nil, fmt.Errorf("%s: the black box ends after %d of %d bytes", name, len(content), length)
	}
	var f *flight
	if err := json.Unmarshal(content[:length], &f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// boxCount returns how often a black box was written: as long as it grows, executions come and go. It is zero if there is none.
func boxCount(name string) int64 {
	file, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	var header [headerSize]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return 0
	}
	var count, length int64
	if _, err := fmt.Sscanf(string(header[:]), boxHeader, &count, &length); err != nil {
		return 0
	}
	return count
}

// traced is part of what a run chose.
type traced struct {
	Steps     []schedule.Event       `json:"steps,omitempty"`
	Latencies []schedule.Latency     `json:"latencies,omitempty"`
	Orders    []schedule.Permutation `json:"orders,omitempty"`
	Ties      []schedule.Tie         `json:"ties,omitempty"`
	// Faults are all that have struck so far.
	Faults []schedule.Fault `json:"faults,omitempty"`
}

// beginTrace begins to write down the choices of a run.
func (b *blackBox) beginTrace() (err error) {
	b.told = traced{}
	b.choices, err = os.Create(choicesFile(b.file.Name()))
	return err
}

// trace writes down what a run chose since it was last called. That it cannot be written leaves the finding without a trace.
func (b *blackBox) trace(r sim.Recorded) {
	t, told := r.Trace, &b.told
	news := traced{
		Steps: t.Steps[len(told.Steps):], Latencies: t.Latencies[len(told.Latencies):], Orders: t.Orders[len(told.Orders):],
		Ties: t.Ties[len(told.Ties):],
	}
	var faults []schedule.Fault
	for i := range r.Faults {
		if r.Faults[i].Struck {
			faults = append(faults, r.Faults[i].Fault)
		}
	}
	if len(faults) > len(told.Faults) {
		news.Faults = faults
	}
	b.told = traced{t.Steps, t.Latencies, t.Orders, t.Ties, faults}
	if line, err := json.Marshal(news); err == nil {
		_, _ = b.choices.Write(append(line, '\n'))
	}
}

// readTrace adds to a schedule what the run under it chose before it ended its process. It returns nil if that is not known.
func readTrace(box string, s *schedule.Schedule) *schedule.Schedule {
	content, err := os.ReadFile(choicesFile(box))
	if err != nil {
		return nil
	}
	full := *s
	full.Trace = &schedule.Trace{}
	for line := range bytes.Lines(content) {
		var news traced
		if err := json.Unmarshal(line, &news); err != nil {
			break // the line was not finished
		}
		t := full.Trace
		t.Steps, t.Latencies = append(t.Steps, news.Steps...), append(t.Latencies, news.Latencies...)
		t.Orders, t.Ties = append(t.Orders, news.Orders...), append(t.Ties, news.Ties...)
		if len(news.Faults) > 0 {
			full.Faults = news.Faults
		}
	}
	if len(full.Trace.Steps) == 0 {
		return nil
	}
	return &full
}
