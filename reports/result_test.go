package reports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// encoded returns a document as it is written.
func encoded(t *testing.T, d Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// decoded returns a document as it is read from what was written, which must be the same when it is written again.
func decoded(t *testing.T, d Document) Document {
	t.Helper()
	text := encoded(t, d)
	all, err := DecodeDocuments(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if again := encoded(t, all[0]); again != text || len(all) != 1 {
		t.Errorf("written again, the document differs (-first +second):\n%s", cmp.Diff(text, again))
	}
	return all[0]
}

// TestResultsSayTheSame checks that reports on what was read say what reports on what was written say, to the byte.
func TestResultsSayTheSame(t *testing.T) {
	for name, make := range results {
		t.Run(name, func(t *testing.T) {
			live := make()
			read := decoded(t, Document{Result: live}).Result
			for _, o := range []Options{{}, {Findings: 1, Names: true, Color: true}} {
				if diff := cmp.Diff(render(t, live, o), render(t, read, o)); diff != "" {
					t.Errorf("the reports differ (-live +read):\n%s", diff)
				}
			}
			for i := range live.Findings {
				var want, got bytes.Buffer
				if err := errors.Join(Finding(&want, live, i, Options{}), Finding(&got, read, i, Options{})); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.String(), got.String()); diff != "" {
					t.Errorf("the reports of finding %d differ (-live +read):\n%s", i, diff)
				}
			}
		})
	}
}

func TestReplaysSayTheSame(t *testing.T) {
	for name, replay := range replays {
		t.Run(name, func(t *testing.T) {
			r, p := replay.make()
			read := decoded(t, Document{Result: r, Replay: &p})
			read.Replay.Whole = p.Whole // not in the file
			var want, got bytes.Buffer
			if err := Replay(&want, r, p, Options{}); err != nil {
				t.Fatal(err)
			}
			if err := Replay(&got, read.Result, *read.Replay, Options{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("the reports differ (-live +read):\n%s", diff)
			}
		})
	}
}

// TestProblemsAreRead checks the documents that say why there is no result.
func TestProblemsAreRead(t *testing.T) {
	if got := decoded(t, failed()); got.Problem != failed().Problem || got.Result.Path != "wrong.yaml" || got.Verdict() != Failed {
		t.Errorf("read: %+v", got)
	}
	var b bytes.Buffer
	if err := failed().Text(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	want := "! FAILED  wrong.yaml\n  wrong.yaml:7:3: spec.racers[0].type: unknown type Kublet\n    did you mean Kubelet?\n"
	if b.String() != want {
		t.Errorf("it says:\n%s", b.String())
	}
}

func TestResultGolden(t *testing.T) {
	golden(t, "result.json", encoded(t, Document{Result: found()}))
	var b bytes.Buffer
	if err := EncodeFinding(&b, &crashed().Findings[0]); err != nil {
		t.Fatal(err)
	}
	golden(t, "finding.json", b.String())
	read, err := DecodeFinding(&b)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := EncodeFinding(&again, read); err != nil {
		t.Fatal(err)
	}
	golden(t, "finding.json", again.String())
}

// TestEveryFieldIsWritten fills every field of a result with a value of its own, and looks for it in what is read. A field that is
// added to a type is in the documents without anybody's doing, unless it has a type that they have no form for.
func TestEveryFieldIsWritten(t *testing.T) {
	want := &history.Result{}
	f := filler{}
	f.fill(reflect.ValueOf(want).Elem())
	// What is checked when it is read.
	for _, h := range []*history.History{want.Default, want.Findings[0].Run, want.Replays[0].Run} {
		h.Records[0].ReadsFrom, h.Records[0].Cause = -1, -1
		h.Logs[0].Record, h.Ends[0].Record, h.Faults[0].Record, h.Denied[0].Record = 0, 0, 0, 0
	}
	got := decoded(t, Document{Result: want}).Result
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if f.last < 400 {
		t.Errorf("only %d values were filled in", f.last)
	}
}

// filler fills values with numbers that count up, and texts with such numbers.
type filler struct{ last int64 }

func (f *filler) fill(v reflect.Value) {
	f.last++
	switch {
	case v.Type() == objectType:
		v.Set(reflect.ValueOf(apiserver.Object(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": fmt.Sprint("object-", f.last), "generation": f.last}, "half": float64(f.last) + 0.5}})))
		return
	case v.Type() == eventType:
		v.Set(reflect.ValueOf(schedule.Event{Actor: fmt.Sprint("actor-", f.last), Incarnation: int(f.last % 3), Verb: schedule.Get,
			Kind: "Pod", Name: fmt.Sprint("pod-", f.last), Occurrence: int(f.last)}))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.last)
	case reflect.Uint64:
		v.SetUint(uint64(f.last) << 40)
	case reflect.String:
		v.SetString(fmt.Sprintf("<text %d> ☂ \xff", f.last))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			f.fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint("key-", f.last): "value"}))
	default:
		panic("nothing is known to fill a " + v.Type().String() + " with")
	}
}

// TestEventsAreRead checks events whose names alone would not be enough.
func TestEventsAreRead(t *testing.T) {
	for _, want := range []schedule.Event{
		{Actor: "operator", Incarnation: 1, Verb: schedule.Update, Kind: "Pod", Namespace: "default", Name: "a", Occurrence: 3},
		{Actor: "op[1]", Verb: schedule.Start},
		{Actor: "op [1]", Incarnation: 1, Controller: "web", Key: "default/a", Verb: schedule.Dequeue},
		{Actor: "kcm", Verb: schedule.Deliver, Kind: "Pod", Name: "a", Return: true},
		{Actor: "kcm", Incarnation: -1, Verb: "Dance"},
		{Actor: "kcm", Incarnation: 12, Verb: schedule.Get, Kind: "\xff"},
		{Name: "nobody"},
	} {
		h := cascade()
		h.Records[0].Event = want
		read := decoded(t, Document{Result: &history.Result{Default: h}}).Result.Default
		if got := read.Records[0].Event; got != want {
			t.Errorf("event %#v was read as %#v", want, got)
		}
	}
}

// TestPointersStayEqual checks what reports tell by pointers: whether a finding is the default order, and what is shared.
func TestPointersStayEqual(t *testing.T) {
	r := found()
	r.Default = r.Findings[0].Run
	read := decoded(t, Document{Result: r}).Result
	if read.Default != read.Findings[0].Run {
		t.Error("the finding is not the default order any more")
	}
	if read.Default.Verdicts[0].Property != read.Coverage.Properties[0].Property {
		t.Error("a property is there twice")
	}
}

func TestDecodeErrors(t *testing.T) {
	good := encoded(t, Document{Result: found()})
	replace := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the document has no %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":         {"", "result: empty, there is no document: write it anew with --json"},
		"text":          {"✗ BROKEN", "document 1: result: no JSON as --json writes it: invalid character 'â' looking for beginning of value"},
		"a list":        {"[]", "document 1: result: no JSON as --json writes it: json: cannot unmarshal array"},
		"cut":           {good[:len(good)/2], "document 1: result: cut short: write it anew with --json"},
		"cut later":     {good + good[:99], "document 2: result: cut short"},
		"no version":    {"{}", "document 1: result: no apiVersion: give a file that --json wrote"},
		"other version": {replace("v1alpha1", "v9"), `result: apiVersion stalemate.dev/v9 is not known, only ` + ResultVersion},
		"scenario":      {replace(`"kind":"Result"`, `"kind":"Scenario"`), "kind Scenario cannot be rendered, only Result, Replay or Problem"},
		"no body":       {`{"apiVersion":"` + ResultVersion + `","kind":"Result"}`, "document 1: result: want an object, not null"},
		"new field":     {replace(`"scenario":`, `"weather":`), "result.weather: there is no such field"},
		"new table":     {replace(`"objects":`, `"weather":`), "weather: there is no such field in a Result"},
		"no object":     {replace(`"after":1,`, `"after":999,`), `records[2].after: want an index of objects, of which there are `},
		"object":        {replace(`"objects":[`+"\n", `"objects":[7,`), `objects[0]: want an object, not "7"`},
		"no record":     {replace(`"readsFrom":5`, `"readsFrom":50`), "records[7].readsFrom: there is no record 50"},
		"event":         {replace(`"event":"operator[1] Dequeue`, `"event":"operator[1] Dance`), "records[0].event: event \"operator[1] Dance"},
		"duration":      {replace(`"at":"1.000001ms"`, `"at":1`), `records[0].at: want a time such as "1m2.5s", not "1"`},
		"hash":          {replace(`"hash":"2545f4914f6cdd1d"`, `"hash":"25"`), "result.hash: want a hash of 16 hexadecimal digits"},
		"no run":        {replace(`"run":0`, `"also":0`), "result.findings[0].run: missing: write the file anew"},
		"no property":   {replace(`"property":0,`, ``), "property: missing: write the file anew"},
	} {
		if _, err := DecodeDocuments(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %s", name, err, test.want)
		}
	}
	if _, err := DecodeResult(strings.NewReader(good + good)); err == nil || !strings.Contains(err.Error(), "more follows") {
		t.Errorf("two documents as one: %v", err)
	}
	if _, err := DecodeFinding(strings.NewReader(good)); err == nil || !strings.Contains(err.Error(), "a Result, not a Finding") {
		t.Errorf("a result as a finding: %v", err)
	}
	if both, err := DecodeDocuments(strings.NewReader(good + good)); err != nil || len(both) != 2 {
		t.Errorf("two documents: %d, %v", len(both), err)
	}
}

// recreated reads what the replay of a real bug came to.
func recreated(t *testing.T) Document {
	t.Helper()
	content, err := os.ReadFile("testdata/recreate.json")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := DecodeDocuments(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if got := encoded(t, documents[0]); got != string(content) {
		t.Errorf("written again, the file differs (-first +second):\n%s", cmp.Diff(string(content), got))
	}
	return documents[0]
}

// TestRecreated renders what a real run came to in the forms that others read.
func TestRecreated(t *testing.T) {
	d := recreated(t)
	trace := traced(t, d)
	if err := checkTrace(trace); err != nil {
		t.Error(err)
	}
	if arrows := strings.Count(trace, `"ph":"f"`); arrows < 20 {
		t.Errorf("the trace has only %d arrows", arrows)
	}
	if err := checkJUnit(strings.NewReader(junit(t, d))); err != nil {
		t.Error(err)
	}
	for _, a := range annotationsOf(d) {
		if a.level == "error" && a.at.Line == 0 && !strings.Contains(a.title, "SwallowedError") { // a detector is written nowhere
			t.Errorf("an annotation has no line: %s", a.command())
		}
	}
}

func TestEncodeReportsWriteErrors(t *testing.T) {
	if err := EncodeResult(brokenWriter{}, found()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("EncodeResult to a broken writer: %v", err)
	}
	r := found()
	r.Findings[0].Run.Records[0].After = &unstructured.Unstructured{Object: map[string]any{"spec": func() {}}}
	if err := EncodeResult(&bytes.Buffer{}, r); err == nil || !strings.Contains(err.Error(), "result cannot be written as JSON") {
		t.Errorf("EncodeResult of a function: %v", err)
	}
}

// FuzzDecodeDocuments checks that nothing that is read panics, nor what is rendered of it.
func FuzzDecodeDocuments(f *testing.F) {
	for _, make := range results {
		var b bytes.Buffer
		if err := EncodeResult(&b, make()); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	for _, replay := range replays {
		var b bytes.Buffer
		r, p := replay.make()
		if err := (Document{Result: r, Replay: &p}).Encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, err := DecodeDocuments(bytes.NewReader(data))
		if err != nil {
			return
		}
		failed := errors.Join(JUnit(io.Discard, documents), Trace(io.Discard, documents), Annotations(io.Discard, documents, nil),
			StepSummary(io.Discard, documents, SummaryLimit))
		for _, d := range documents {
			failed = errors.Join(failed, d.Text(io.Discard, Options{Names: true, Findings: 9}), d.Encode(io.Discard))
		}
		if failed != nil {
			t.Error(failed)
		}
	})
}
