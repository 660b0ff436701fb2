package reports

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// ResultVersion is the version of the JSON that results are written in.
const ResultVersion = "stalemate.dev/v1alpha1"

// The kinds of documents.
const (
	// KindResult is what an exploration of one scenario came to: a [history.Result].
	KindResult = "Result"
	// KindReplay is what the replay of one schedule came to: a [Replayed], with the result it belongs to.
	KindReplay = "Replay"
	// KindProblem says why there is no result.
	KindProblem = "Problem"
	// KindFinding is one finding by itself: a [history.Finding].
	KindFinding = "Finding"
)

// EncodeResult writes what an exploration came to as a JSON document: all of it, so that [DecodeResult] gives a result of which
// reports say the same to the byte. Equal results are equal bytes.
func EncodeResult(w io.Writer, r *history.Result) error {
	return encode(w, KindResult, reflect.ValueOf(r).Elem())
}

// EncodeFinding writes one finding as [EncodeResult] writes a result.
func EncodeFinding(w io.Writer, f *history.Finding) error {
	return encode(w, KindFinding, reflect.ValueOf(f).Elem())
}

// encode writes a document: its head, its body under the name of the kind, and the tables.
func encode(w io.Writer, kind string, body reflect.Value) error {
	e := newEncoder()
	main := e.value(nil, body)
	if e.failed != nil {
		return fmt.Errorf("%s cannot be written as JSON: %w", strings.ToLower(kind), e.failed)
	}
	b := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(b, "{\"apiVersion\":%q,\"kind\":%q,\n%q:%s", ResultVersion, kind, strings.ToLower(kind), main)
	for _, t := range tables {
		entries := e.tables[t.name].entries
		if len(entries) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(b, ",\n%q:[", t.name)
		for i, entry := range entries {
			_, _ = fmt.Fprintf(b, "%s\n%s", map[bool]string{true: ","}[i > 0], entry)
		}
		_, _ = b.WriteString("]")
	}
	_, _ = b.WriteString("}\n")
	if err := b.Flush(); err != nil { // which has the first error of all
		return fmt.Errorf("%s cannot be written: %w", strings.ToLower(kind), err)
	}
	return nil
}

// DecodeResult reads what [EncodeResult] wrote. The error names the place in the document that is wrong.
func DecodeResult(r io.Reader) (*history.Result, error) {
	return decodeOne(r, KindResult, func(result *history.Result) error { return checkResult("result", result) })
}

// DecodeFinding reads what [EncodeFinding] wrote. The error is like that of [DecodeResult].
func DecodeFinding(r io.Reader) (*history.Finding, error) {
	return decodeOne(r, KindFinding, func(f *history.Finding) error { return checkFinding("finding", f) })
}

// decodeOne reads a document of one kind, and nothing after it.
func decodeOne[T any](r io.Reader, kind string, check func(*T) error) (*T, error) {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	document, err := nextDocument(decoder)
	if errors.Is(err, io.EOF) {
		err = errors.New("result: empty, there is no document: write it anew")
	}
	if err != nil {
		return nil, err
	}
	if got := document["kind"]; got != kind {
		return nil, fmt.Errorf("result: a %v, not a %s: 'stalemate report' renders whatever there is", got, kind)
	}
	if decoder.More() {
		return nil, fmt.Errorf("result: more follows the %s: read several as documents", kind)
	}
	body := new(T)
	if err := decodeBody(document, kind, body); err != nil {
		return nil, err
	}
	return body, check(body)
}

// DecodeDocuments reads the documents of a file, which stand one after the other; there is at least one. The error
// names the document, from 1, and the place in it that is wrong.
func DecodeDocuments(r io.Reader) ([]Document, error) {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	var documents []Document
	for {
		document, err := nextDocument(decoder)
		if errors.Is(err, io.EOF) && len(documents) > 0 {
			return documents, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, errors.New("result: empty, there is no document: write it anew with --json")
		}
		var decoded Document
		if err == nil {
			decoded, err = decodeDocument(document)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(documents)+1, err)
		}
		documents = append(documents, decoded)
	}
}

// nextDocument reads the next document and checks its version. The error is io.EOF if there is none.
func nextDocument(decoder *json.Decoder) (map[string]any, error) {
	var document map[string]any
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("result: cut short: write it anew with --json")
	case err != nil:
		return nil, fmt.Errorf("result: no JSON as --json writes it: %w", err)
	}
	switch version := document["apiVersion"]; version {
	case ResultVersion:
		delete(document, "apiVersion")
		return document, nil
	case nil:
		return nil, errors.New("result: no apiVersion: give a file that --json wrote")
	default:
		return nil, fmt.Errorf("result: apiVersion %v is not known, only %s: render it with the stalemate that wrote it",
			version, ResultVersion)
	}
}

func decodeDocument(document map[string]any) (Document, error) {
	switch kind := document["kind"]; kind {
	case KindResult:
		var result history.Result
		if err := decodeBody(document, KindResult, &result); err != nil {
			return Document{}, err
		}
		return Document{Result: &result}, checkResult("result", &result)
	case KindReplay:
		var body replayed
		if err := decodeBody(document, KindReplay, &body); err != nil {
			return Document{}, err
		}
		told := &Replayed{Replay: body.Replay, File: body.File, Times: body.Times, Exact: body.Exact}
		return Document{Result: body.Result, Replay: told}, checkReplayed(&body)
	case KindProblem:
		var body problem
		if err := decodeBody(document, KindProblem, &body); err != nil {
			return Document{}, err
		}
		if body.Result == nil || body.Words == "" {
			return Document{}, missing("problem.result or problem.words")
		}
		return Document{Result: body.Result, Problem: body.Words}, checkResult("problem.result", body.Result)
	default:
		return Document{}, fmt.Errorf("result: kind %v cannot be rendered, only %s, %s or %s: give a file that --json wrote",
			kind, KindResult, KindReplay, KindProblem)
	}
}

// decodeBody reads the body of a document, which nothing stands beside but the tables.
func decodeBody(document map[string]any, kind string, body any) error {
	d, err := takeTables(document)
	if err != nil {
		return err
	}
	delete(document, "kind")
	name := strings.ToLower(kind)
	main := document[name]
	delete(document, name)
	if len(document) > 0 {
		return fmt.Errorf("%s: there is no such field in a %s: a newer stalemate may have written it, so render it with that",
			slices.Sorted(maps.Keys(document))[0], kind)
	}
	return d.into(name, reflect.ValueOf(body).Elem(), main)
}
