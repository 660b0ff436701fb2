package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/stalemate-dev/stalemate/sim/internal/recorded"
)

// side is one of two servers, as the client of a sequence knows it.
type side struct {
	server    http.RoundTripper
	host      string
	namespace string
	// tracks says that objects are sent back with their managedFields.
	tracks bool

	seen  map[string][]tree // the states of objects, by key
	lists []string          // revisions of lists
	token string            // of the last list that was not whole
}

func newSide(server http.RoundTripper, host, namespace string, tracks bool) *side {
	return &side{server: server, host: host, namespace: namespace, tracks: tracks, seen: map[string][]tree{}}
}

var reference = regexp.MustCompile(`\$(NS|\{(rv|uid|name|list|continue):?([^:}]*):?(\d*)\})`)

// fill fills what a step leaves open.
func (s *side) fill(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		part := reference.FindStringSubmatch(found)
		age, _ := strconv.Atoi(part[4])
		switch part[2] {
		case "rv":
			return s.field(part[3], age, "resourceVersion", "1")
		case "uid":
			return s.field(part[3], age, "uid", unused)
		case "name":
			return s.field(part[3], age, "name", "x")
		case "continue":
			return s.token
		case "list":
			switch {
			case len(s.lists) == 0:
				return "0"
			case part[3] == "first":
				return s.lists[0]
			default:
				return s.lists[len(s.lists)-1]
			}
		default:
			return s.namespace
		}
	})
}

// field returns what a remembered state says in its metadata. Of UIDs and revisions, each counts once.
func (s *side) field(key string, age int, name, otherwise string) string {
	states := s.seen[key]
	last := ""
	for _, state := range slices.Backward(states) {
		metadata, _ := state["metadata"].(tree)
		value, _ := metadata[name].(string)
		if value == "" || value == last {
			continue
		}
		if last = value; age == 0 {
			return value
		}
		age--
	}
	return otherwise
}

// request returns what a step comes to for this server.
func (s *side) request(st step) (recorded.Request, error) {
	r := recorded.Request{Verb: st.Verb, Path: s.fill(st.Path), ContentType: st.ContentType, Accept: st.Accept, RawBody: st.Raw}
	if r.Verb == "WATCH" {
		r.Verb = http.MethodGet
	}
	query := url.Values{}
	for name, values := range st.Query {
		query.Set(name, s.fill(values[0]))
	}
	if len(query) > 0 {
		r.Path += "?" + query.Encode()
	}
	if st.Body == nil {
		return r, nil
	}
	data, err := json.Marshal(st.Body)
	if err != nil {
		return r, err
	}
	data = []byte(s.fill(string(data)))
	if states := s.seen[st.Base]; st.Base != "" && len(states) > 0 {
		base := tree{}
		if err := copyInto(&base, states[len(states)-1]); err != nil {
			return r, err
		}
		if metadata, ok := base["metadata"].(tree); ok && !s.tracks {
			delete(metadata, "managedFields")
		}
		whole, err := json.Marshal(base)
		if err != nil {
			return r, err
		}
		if data, err = jsonpatch.MergePatch(whole, data); err != nil {
			return r, err
		}
	}
	r.Body = data
	return r, nil
}

func copyInto(target any, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, target)
}

// send makes a request and remembers what the answer tells.
func (s *side) send(ctx context.Context, st step) (recorded.Request, recorded.Response, error) {
	r, err := s.request(st)
	if err != nil {
		return r, recorded.Response{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	body := string(r.Body) + r.RawBody
	sent, err := http.NewRequestWithContext(ctx, r.Verb, s.host+r.Path, strings.NewReader(body))
	if err != nil {
		return r, recorded.Response{}, err
	}
	for name, value := range map[string]string{"Content-Type": r.ContentType, "Accept": r.Accept, "User-Agent": st.Agent} {
		if value != "" {
			sent.Header.Set(name, value)
		}
	}
	if body != "" && r.ContentType == "" {
		sent.Header.Set("Content-Type", "application/json")
	}
	response, err := s.server.RoundTrip(sent)
	if err != nil {
		return r, recorded.Response{}, fmt.Errorf("%s %s: %w", r.Verb, r.Path, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer := recorded.Response{Code: response.StatusCode}
	if warnings := response.Header.Values("Warning"); len(warnings) > 0 {
		answer.Headers = map[string]string{"Warning": strings.Join(warnings, "\n")}
	}
	if st.Verb == "WATCH" && response.StatusCode == http.StatusOK {
		answer.Events, err = events(cancel, response.Body)
		return r, answer, err
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return r, answer, err
	}
	if json.Unmarshal(data, &answer.Body) != nil {
		answer.Raw = string(data)
	}
	if response.StatusCode < http.StatusBadRequest && st.Query.Get("dryRun") == "" {
		s.remember(st, answer.Body)
	}
	return r, answer, nil
}

// quiet is how long a watch is listened to on which nothing comes.
const quiet = 700 * time.Millisecond

// events returns those of a watch until the one of the sentinel, an error, or until nothing comes any more.
func events(cancel context.CancelFunc, body io.Reader) ([]any, error) {
	all := []any{}
	decoder := json.NewDecoder(body)
	timer := time.AfterFunc(quiet, cancel)
	defer timer.Stop()
	for {
		var event tree
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
			return all, nil
		case err != nil:
			return nil, err
		}
		timer.Reset(quiet)
		object, _ := event["object"].(tree)
		metadata, _ := object["metadata"].(tree)
		annotations, _ := metadata["annotations"].(tree)
		if event["type"] == "BOOKMARK" && annotations["k8s.io/initial-events-end"] == nil {
			continue // which come when they come
		}
		all = append(all, event)
		if metadata["name"] == sentinel && event["type"] == "ADDED" || event["type"] == "ERROR" {
			return all, nil
		}
	}
}

// remember notes the objects of an answer.
func (s *side) remember(st step, body any) {
	obj, _ := body.(tree)
	metadata, _ := obj["metadata"].(tree)
	items, isList := obj["items"].([]any)
	switch {
	case metadata == nil || obj["kind"] == "Status":
	case isList:
		fresh := st.Verb == http.MethodGet && st.Query.Get("resourceVersion") == "" // others may come from a cache that lags
		if revision, _ := metadata["resourceVersion"].(string); revision != "" && fresh {
			s.lists = append(s.lists, revision)
		}
		if token, _ := metadata["continue"].(string); token != "" {
			s.token = token
		}
		for _, item := range items { // those of a list do not say of which kind they are
			if item, ok := item.(tree); ok {
				inner, _ := item["metadata"].(tree)
				name, _ := inner["name"].(string)
				s.note(keyOf(st.Path, name), merge(item, tree{"apiVersion": obj["apiVersion"],
					"kind": strings.TrimSuffix(fmt.Sprint(obj["kind"]), "List")}))
			}
		}
	case st.Key != "" && obj["kind"] != "PartialObjectMetadata":
		s.note(st.Key, obj)
	}
}

// keyOf returns the key of an object in a collection.
func keyOf(collection, name string) string {
	return strings.TrimPrefix(strings.Replace(collection, "/namespaces/$NS", "", 1), "/") + "/" + name
}

func (s *side) note(key string, obj tree) {
	if states := s.seen[key]; len(states) > 0 {
		last, _ := json.Marshal(states[len(states)-1])
		if now, _ := json.Marshal(obj); bytes.Equal(last, now) {
			return
		}
	}
	s.seen[key] = append(s.seen[key], obj)
}
