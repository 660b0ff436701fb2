package conformance

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/internal/recorded"
)

// asCase makes a recording of what was said to the real server and what it answered.
func (f *finding) asCase(name, version string) (recorded.Case, error) {
	c := recorded.Case{Name: name, Group: "difference", Server: "kube-apiserver " + version, Setup: []recorded.Step{}}
	var p placeholders
	for _, x := range f.exchanges {
		if err := p.see(x.Answer); err != nil {
			return c, err
		}
	}
	for i, x := range f.exchanges {
		data, err := json.Marshal(x)
		if err != nil {
			return c, err
		}
		data = bytes.ReplaceAll(data, []byte(f.namespace), []byte(c.Namespace()))
		if x, err = p.replaced(data); err != nil {
			return c, err
		}
		if i == len(f.exchanges)-1 {
			c.Request, c.Answer = x.Request, x.Answer
		} else {
			c.Setup = append(c.Setup, x)
		}
	}
	if strings.Contains(string(mustJSON(c)), "golden.example.com") && !strings.Contains(string(mustJSON(c)), "widgets") {
		c.Definitions = "recorded-crds.yaml"
	}
	return c, nil
}

func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // of JSON that was decoded before
	}
	return data
}

// placeholders are what stands for changing values in a recording.
type placeholders struct {
	uids      []string
	revisions []int
	tokens    []string
}

// see notes what changes in an answer.
func (p *placeholders) see(answer recorded.Response) error {
	var value any
	if err := copyInto(&value, answer); err != nil {
		return err
	}
	p.look("", value)
	slices.Sort(p.revisions)
	return nil
}

func (p *placeholders) look(name string, value any) {
	switch value := value.(type) {
	case tree:
		metadata, _ := value["metadata"].(tree)
		for _, key := range sortedKeys(value) {
			if _, list := value["items"]; list && key == "metadata" {
				if token, _ := metadata["continue"].(string); token != "" {
					p.tokens = append(p.tokens, token)
				}
				continue // the revision of a list is that of the moment
			}
			p.look(key, value[key])
		}
	case []any:
		for _, inner := range value {
			p.look(name, inner)
		}
	case string:
		if n, err := strconv.Atoi(value); err == nil && name == "resourceVersion" && n > 0 && !slices.Contains(p.revisions, n) {
			p.revisions = append(p.revisions, n)
		}
		for _, found := range anyUID.FindAllString(value, -1) {
			if found != unused && !slices.Contains(p.uids, found) {
				p.uids = append(p.uids, found)
			}
		}
	}
}

func sortedKeys(t tree) []string {
	var keys []string
	for key := range t {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

var (
	anyUID     = regexp.MustCompile(uidForm)
	anyMoment  = regexp.MustCompile(timeForm)
	anyAddress = regexp.MustCompile(`\b` + addressForm + `\b`)
	anyMade    = regexp.MustCompile(`\b(gen-\d+-)[a-z0-9]{5}\b`)
	inRecord   = regexp.MustCompile(`(esourceVersion in (?:record|the precondition) \()(\d+)\)`)
	current    = regexp.MustCompile(`current: \d+`)
	quoted     = regexp.MustCompile(`(esourceVersion\\*":\\*"|resourceVersion=)(\d+)`)
)

// replaced returns a step with placeholders for what changes.
func (p *placeholders) replaced(data []byte) (recorded.Step, error) {
	var x recorded.Step
	text := quoted.ReplaceAllStringFunc(string(data), p.inGroup(quoted))
	for _, token := range p.tokens {
		text = strings.ReplaceAll(text, token, "$CONTINUE")
	}
	text = anyUID.ReplaceAllStringFunc(text, func(found string) string {
		if i := slices.Index(p.uids, found); i >= 0 {
			return "$UID" + strconv.Itoa(i+1)
		}
		return found
	})
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return x, err
	}
	var answer any
	if err := copyInto(&answer, x.Answer); err != nil {
		return x, err
	}
	x.Answer = recorded.Response{}
	return x, copyInto(&x.Answer, p.answered("", answer))
}

// inGroup replaces the revision that is the second group of a match.
func (p *placeholders) inGroup(form *regexp.Regexp) func(string) string {
	return func(found string) string {
		parts := form.FindStringSubmatch(found)
		n, err := strconv.Atoi(parts[2])
		if i := slices.Index(p.revisions, n); err == nil && i >= 0 {
			return parts[1] + "$RV" + strconv.Itoa(i+1) + strings.TrimPrefix(found, parts[1]+parts[2])
		}
		return found
	}
}

// answered puts in what stands for times, addresses and the revision of the moment, and leaves out managedFields.
func (p *placeholders) answered(name string, value any) any {
	switch value := value.(type) {
	case tree:
		out := tree{}
		for key, inner := range value {
			if key != "managedFields" {
				out[key] = p.answered(key, inner)
			}
		}
		metadata, _ := out["metadata"].(tree)
		if _, list := value["items"]; list && metadata["resourceVersion"] != nil {
			metadata["resourceVersion"] = "$RVNOW"
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = p.answered(name, value[i])
		}
		return out
	case string:
		value = inRecord.ReplaceAllStringFunc(value, p.inGroup(inRecord))
		value = current.ReplaceAllString(anyMoment.ReplaceAllString(value, "$$TIME"), "current: $$RVNOW")
		value = anyMade.ReplaceAllString(value, "$1$$N")
		return anyAddress.ReplaceAllString(value, "$$N")
	default:
		return value
	}
}
