package scenarios

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// A trace in a file is base64, wrapped at traceWidth columns, of a byte with the version and then, deflated: the words that
// events are made of; the events without their occurrences, by their words; and the steps, latencies, orders and ties, by
// the events. Numbers are varints (encoding/binary). An occurrence is written as what it is more than one after the event's last,
// which is nearly always zero.
const (
	traceVersion = 1
	traceWidth   = 100
	// maxTrace bounds a trace that was inflated, in bytes. A step takes about two, and runs end by their limit on steps.
	maxTrace = 4 << 20
)

// encodeTrace writes a trace as text. It fails if it is longer than what can be read back.
func encodeTrace(trace *schedule.Trace) (string, error) {
	e := traceEncoder{words: map[string]int{}, events: map[schedule.Event]int{}, last: map[int]int{}}
	e.number(len(trace.Steps))
	for _, step := range trace.Steps {
		e.event(step)
	}
	e.number(len(trace.Latencies))
	for _, latency := range trace.Latencies {
		e.event(latency.At)
		e.number(latency.Repeat)
		e.body = binary.AppendVarint(e.body, int64(latency.For))
	}
	e.number(len(trace.Orders))
	for _, permutation := range trace.Orders {
		e.event(permutation.At)
		e.number(permutation.Repeat)
		e.number(len(permutation.Order))
		for _, from := range permutation.Order {
			e.number(from)
		}
	}
	e.number(len(trace.Ties))
	for _, tie := range trace.Ties {
		e.number(tie.Step)
		e.number(tie.Index)
	}
	plain := e.bytes()
	if len(plain) > maxTrace {
		return "", fmt.Errorf("the trace is too long: %d bytes, and %d is the most; leave it out", len(plain), maxTrace)
	}
	text := base64.StdEncoding.EncodeToString(deflate(plain))
	var b strings.Builder
	for len(text) > traceWidth {
		b.WriteString(text[:traceWidth] + "\n")
		text = text[traceWidth:]
	}
	b.WriteString(text + "\n")
	return b.String(), nil
}

// traceEncoder collects the parts of a trace.
type traceEncoder struct {
	words  map[string]int
	events map[schedule.Event]int // without occurrence
	last   map[int]int            // occurrence of each event
	// The parts, as they are written.
	wordList, eventList, body []byte
}

func (e *traceEncoder) number(n int) { e.body = binary.AppendUvarint(e.body, uint64(n)) }

func (e *traceEncoder) word(word string) uint64 {
	n, ok := e.words[word]
	if !ok {
		n = len(e.words)
		e.words[word] = n
		e.wordList = binary.AppendUvarint(e.wordList, uint64(len(word)))
		e.wordList = append(e.wordList, word...)
	}
	return uint64(n)
}

func (e *traceEncoder) event(event schedule.Event) {
	occurrence := event.Occurrence
	event.Occurrence = 0
	n, ok := e.events[event]
	if !ok {
		n = len(e.events)
		e.events[event] = n
		for _, word := range words(&event) {
			e.eventList = binary.AppendUvarint(e.eventList, e.word(*word))
		}
		e.eventList = binary.AppendUvarint(e.eventList, e.word(string(event.Verb)))
		e.eventList = binary.AppendVarint(e.eventList, int64(event.Incarnation))
		e.eventList = append(e.eventList, flag(event.Return))
	}
	e.number(n)
	e.body = binary.AppendVarint(e.body, int64(occurrence-e.last[n]-1))
	e.last[n] = occurrence
}

// words returns the fields of an event that are words, but for its verb.
func words(e *schedule.Event) []*string {
	return []*string{&e.Actor, &e.Controller, &e.Key, &e.Kind, &e.Namespace, &e.Name, &e.Subresource}
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// bytes puts the parts together.
func (e *traceEncoder) bytes() []byte {
	plain := binary.AppendUvarint(nil, uint64(len(e.words)))
	plain = append(plain, e.wordList...)
	plain = binary.AppendUvarint(plain, uint64(len(e.events)))
	plain = append(plain, e.eventList...)
	return append(plain, e.body...)
}

// deflate returns a trace as it is in a file, after its version.
func deflate(plain []byte) []byte {
	var out bytes.Buffer
	out.WriteByte(traceVersion)
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil { // the level is known, and a buffer takes all that is written
		panic(fmt.Sprintf("scenarios: a trace cannot be deflated: %v", err))
	}
	return out.Bytes()
}

// errTrace is what is wrong with a trace that somebody edited.
var errTrace = errors.New("damaged: it was cut short or edited; remove it, and the schedule replays by its names alone")

// decodeTrace reads a trace.
func decodeTrace(text string) (*schedule.Trace, error) {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil || len(data) == 0 {
		return nil, errTrace
	}
	if data[0] != traceVersion {
		return nil, fmt.Errorf("written by another version of this program (format %d, this one reads %d); remove it, "+
			"and the schedule replays by its names alone", data[0], traceVersion)
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data[1:])), maxTrace+1))
	if err != nil || len(plain) > maxTrace {
		return nil, errTrace
	}
	d := &traceDecoder{rest: plain, last: map[int]int{}}
	trace := d.trace()
	if d.failed || len(d.rest) > 0 {
		return nil, errTrace
	}
	return trace, nil
}

// traceDecoder reads the parts of a trace. Once it has failed it returns zeros.
type traceDecoder struct {
	rest   []byte
	failed bool
	words  []string
	events []schedule.Event
	last   map[int]int
}

func (d *traceDecoder) trace() *schedule.Trace {
	d.each(func() {
		n := d.count()
		d.words = append(d.words, string(d.rest[:n]))
		d.rest = d.rest[n:]
	})
	d.each(func() {
		var event schedule.Event
		for _, word := range words(&event) {
			*word = d.word()
		}
		event.Verb = schedule.Verb(d.word())
		event.Incarnation = int(d.signed())
		event.Return = d.number() != 0
		d.events = append(d.events, event)
	})
	trace := &schedule.Trace{}
	d.each(func() { trace.Steps = append(trace.Steps, d.event()) })
	d.each(func() {
		latency := schedule.Latency{At: d.event(), Repeat: int(d.number()), For: time.Duration(d.signed())}
		trace.Latencies = append(trace.Latencies, latency)
	})
	d.each(func() {
		permutation := schedule.Permutation{At: d.event(), Repeat: int(d.number())}
		d.each(func() { permutation.Order = append(permutation.Order, int(d.number())) })
		trace.Orders = append(trace.Orders, permutation)
	})
	d.each(func() { trace.Ties = append(trace.Ties, schedule.Tie{Step: int(d.number()), Index: int(d.number())}) })
	return trace
}

// each reads a number, and so many things.
func (d *traceDecoder) each(read func()) {
	for range d.count() {
		if d.failed {
			return
		}
		read()
	}
}

func (d *traceDecoder) fail() { d.failed, d.rest = true, nil }

func (d *traceDecoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *traceDecoder) signed() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count reads the number of things that follow, each of which takes a byte at least.
func (d *traceDecoder) count() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *traceDecoder) word() string {
	n := d.number()
	if n >= uint64(len(d.words)) {
		d.fail()
		return ""
	}
	return d.words[n]
}

func (d *traceDecoder) event() schedule.Event {
	n := d.number()
	more := d.signed()
	if n >= uint64(len(d.events)) {
		d.fail()
		return schedule.Event{}
	}
	event := d.events[n]
	event.Occurrence = d.last[int(n)] + 1 + int(more)
	d.last[int(n)] = event.Occurrence
	return event
}
