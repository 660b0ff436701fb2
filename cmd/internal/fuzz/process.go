package fuzz

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// keptOutput is how much of what a worker last wrote to stderr is kept, keptStacks how much of its stacks, in bytes.
	keptOutput, keptStacks = 256 << 10, 4 << 20
	// quitTime is how long a worker that was asked for its stacks has to write them.
	quitTime = 5 * time.Second
)

// process is a worker process, as its supervisor has it.
type process struct {
	command *exec.Cmd
	tasks   io.WriteCloser
	// replies closes when the process has closed its end, which it does by dying at the latest.
	replies chan reply
	output  *tail
	// exited closes when the process has been waited for: state and, for what it wrote, output are final then.
	exited chan struct{}
	state  *os.ProcessState
	broken error // of the pipe, if what came over it was no reply
}

// startProcess starts a worker. It dies with this process at the latest: when its standard input ends, and on Linux even if it hangs.
func startProcess(command []string, environment []string) (*process, error) {
	p := &process{command: exec.Command(command[0], command[1:]...), replies: make(chan reply), exited: make(chan struct{}),
		output: &tail{most: keptOutput}}
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stderr = p.output
	p.command.SysProcAttr = dieWithParent()
	p.command.WaitDelay = quitTime // a process that it started may hold its stderr open
	var err error
	if p.tasks, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	p.command.Stdout = writer
	err = p.command.Start()
	_ = writer.Close() // the child has its own
	if err != nil {
		_ = reader.Close()
		return nil, fmt.Errorf("worker: %w", err)
	}
	go p.read(reader)
	return p, nil
}

// read passes on what the worker replies, and waits for its end.
func (p *process) read(from *os.File) {
	decoder := json.NewDecoder(bufio.NewReaderSize(from, 1<<16))
	for {
		var r reply
		if err := decoder.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				p.broken = err
				_ = p.command.Process.Kill() // nobody listens any more
			}
			break
		}
		p.replies <- r
	}
	close(p.replies)
	_ = from.Close()
	_ = p.command.Wait() // what it says is in the state
	p.state = p.command.ProcessState
	close(p.exited)
}

// give sends a task. An error means that the process is dying, which is heard of elsewhere.
func (p *process) give(t *task) {
	if content, err := json.Marshal(t); err == nil {
		_, _ = p.tasks.Write(append(content, '\n'))
	}
}

// quit asks the process for the stacks of its goroutines, which ends it.
func (p *process) quit() {
	p.output.begin(keptStacks)
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.drained():
	case <-time.After(quitTime):
	}
	p.kill()
}

// kill ends the process, and waits for that.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.drained()
}

// drained closes when the process has ended; until then nobody listens to what it replies.
func (p *process) drained() <-chan struct{} {
	go func() {
		for range p.replies {
			continue // the reader is to come to the end
		}
	}()
	return p.exited
}

// dismiss ends a worker that has nothing to do: it exits when it is told that there is no more.
func (p *process) dismiss() {
	_ = p.tasks.Close()
	select {
	case <-p.drained():
	case <-time.After(quitTime):
		p.kill()
	}
}

// tail keeps the last of what is written to it. It may be written to and read by several goroutines.
type tail struct {
	mutex sync.Mutex
	most  int
	whole bool // what comes after the most is dropped, instead of what came before
	text  []byte
}

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, text...)
	switch {
	case len(t.text) <= t.most:
	case t.whole:
		t.text = t.text[:t.most]
	case len(t.text) > 2*t.most: // not at every write
		t.text = append(t.text[:0], t.text[len(t.text)-t.most:]...)
	}
	return len(text), nil
}

// begin forgets what was written so far, and keeps the first of what comes.
func (t *tail) begin(most int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text, t.most, t.whole = nil, most, true
}

// String returns what is kept.
func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.text)
}
