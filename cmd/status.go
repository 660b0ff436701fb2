package cmd

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stalemate-dev/stalemate/cmd/internal/fuzz"
)

const (
	// redrawEvery is how often the status line of a terminal is rewritten, reportEvery how often a line is written elsewhere.
	redrawEvery = 100 * time.Millisecond
	reportEvery = 10 * time.Second
)

// status tells how far an exploration has come: in one line that is rewritten on a terminal, in a line now and then
// elsewhere. Nothing that it fails to write matters.
type status struct {
	w        io.Writer
	terminal bool
	width    int // of the terminal, zero if not known
	file     string
	now      func() time.Time
	begin    time.Time
	next     time.Time // when to write again
	drawn    bool
}

func newStatus(w io.Writer, file string) *status {
	s := startStatus(w, isTerminal(w) && os.Getenv("TERM") != "dumb", file, time.Now)
	s.width = textOptions(w).Width
	return s
}

func startStatus(w io.Writer, terminal bool, file string, now func() time.Time) *status {
	s := &status{w: w, terminal: terminal, file: file, now: now, begin: now()}
	s.next = s.begin.Add(s.interval())
	return s
}

func (s *status) interval() time.Duration {
	if s.terminal {
		return redrawEvery
	}
	return reportEvery
}

// update writes how far it has come, if it is time to.
func (s *status) update(p progress) {
	now := s.now()
	if now.Before(s.next) {
		return
	}
	s.next = now.Add(s.interval())
	of := ""
	if p.total > 0 {
		of = fmt.Sprintf(" of %d", p.total)
	}
	line := fmt.Sprintf("%s: %s %d%s, %d executions, %d findings, %s",
		s.file, p.strategy, p.done, of, p.executions, p.findings, now.Sub(s.begin).Truncate(time.Second))
	s.write(line)
}

// write writes a line: over the one before it on a terminal.
func (s *status) write(line string) {
	if s.terminal {
		if runes := []rune(line); s.width > 0 && len(runes) >= s.width {
			line = string(runes[:s.width-1]) // a line that wraps could not be taken back
		}
		_, _ = fmt.Fprintf(s.w, "\r\x1b[K%s", line)
		s.drawn = true
		return
	}
	_, _ = fmt.Fprintln(s.w, line)
}

// clear takes the line away, to make room for the report.
func (s *status) clear() {
	if s.drawn {
		_, _ = fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// nightStatus tells how far an exploration of many scenarios has come.
type nightStatus struct {
	status
	mutex sync.Mutex // workers find things at the same time
}

// reportNightEvery is how often a line is written where there is no terminal.
const reportNightEvery = time.Minute

func newNightStatus(w io.Writer) *nightStatus {
	s := &nightStatus{status: *newStatus(w, "")}
	s.schedule(s.begin)
	return s
}

// schedule says when to write next.
func (s *nightStatus) schedule(now time.Time) {
	s.next = now.Add(reportNightEvery)
	if s.terminal {
		s.next = now.Add(redrawEvery)
	}
}

// update writes how far it has come, if it is time to.
func (s *nightStatus) update(st fuzz.Status) {
	now := s.now()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if now.Before(s.next) {
		return
	}
	s.schedule(now)
	s.write(st.String())
}

// log writes a line that stays.
func (s *nightStatus) log(line string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.status.clear()
	_, _ = fmt.Fprintln(s.w, line)
}
