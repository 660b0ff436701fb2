package recorded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Server is what a case is played against.
type Server interface {
	http.RoundTripper
	// Prepare makes the server ready for a case: its namespace exists.
	Prepare(ctx context.Context, c *Case) error
	// Expire makes the server forget its history, before the request of the case is made that finds it gone.
	Expire(ctx context.Context, c *Case) error
}

// Player plays cases. The zero value of an option is what suits a server that is asked in a synctest bubble.
type Player struct {
	Server Server
	// Host is the scheme and the host of the server; http://server.invalid if it is empty.
	Host string
	// Quiet is how long to listen to a watch after its last event came; 10 s if zero.
	Quiet time.Duration
	// Forgetting is how long a server takes to notice that its history is gone: the request that finds it gone is repeated.
	Forgetting time.Duration
	// AnyOrder says that the entries of managedFields come in any order, as where requests do not follow each other within the
	// seconds in which they did when they were recorded.
	AnyOrder bool
}

// Play plays a case and returns the first difference.
func (p *Player) Play(ctx context.Context, c *Case) error {
	if err := p.Server.Prepare(ctx, c); err != nil {
		return err
	}
	g := &game{Player: p, ctx: ctx, bound: map[string]string{}}
	for i, step := range c.Setup {
		if err := g.play(step.Request, step.Answer); err != nil {
			return fmt.Errorf("setup %d: %w", i, err)
		}
	}
	if err := g.subject(c); err != nil {
		return err
	}
	for i, step := range c.After {
		if err := g.play(step.Request, step.Answer); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return errors.Join(g.checkRanks(), g.checkUIDs())
}

// subject makes the request that the case is about.
func (g *game) subject(c *Case) error {
	if !c.Expired() {
		return g.play(c.Request, c.Answer)
	}
	if err := g.Server.Expire(g.ctx, c); err != nil {
		return err
	}
	const pause = time.Second
	for waited := time.Duration(0); ; waited += pause {
		err := g.play(c.Request, c.Answer)
		if err == nil || waited >= g.Forgetting || g.ctx.Err() != nil {
			return err
		}
		time.Sleep(pause)
	}
}

// game plays one case. It binds each placeholder to the value it first meets in its place.
type game struct {
	*Player
	ctx   context.Context
	bound map[string]string
}

var placeholder = regexp.MustCompile(`\$(UID\d+|RV\d+|TIME|RVNOW|CONTINUE|N)`)

// fill puts the bound values into a request.
func (g *game) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if name == "$TIME" {
			return time.Now().UTC().Format(time.RFC3339) // real time: a real server goes by it, and no run is near
		}
		return g.bound[name]
	})
}

var elided = regexp.MustCompile(`^"data\.k of (\d+) bytes, body elided"$`)

// body returns the body that was sent.
func (g *game) body(request Request) (string, error) {
	if size := elided.FindSubmatch(request.Body); size != nil {
		n, err := strconv.Atoi(string(size[1]))
		if err != nil {
			return "", err
		}
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"k":"` + strings.Repeat("x", n) + `"}}`, nil
	}
	return g.fill(string(request.Body) + request.RawBody), nil
}

// send sends a request. Its answer may be read for a while.
func (g *game) send(ctx context.Context, request Request) (*http.Response, error) {
	body, err := g.body(request)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, request.Verb, g.host()+g.fill(request.Path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	set("Content-Type", request.ContentType)
	if body != "" && request.ContentType == "" {
		set("Content-Type", "application/json")
	}
	set("Accept", request.Accept)
	if request.User == "anonymous" {
		request.User = "system:anonymous"
	}
	set("Impersonate-User", request.User)
	return g.Server.RoundTrip(r)
}

// patience is how long an answer, or the events of a watch, are waited for.
const patience = 10 * time.Second

func (p *Player) host() string { return cmp.Or(p.Host, "http://server.invalid") }

func (g *game) play(request Request, want Response) error {
	ctx, cancel := context.WithTimeout(g.ctx, 2*patience)
	defer cancel()
	at := request.Verb + " " + request.Path
	response, err := g.send(ctx, request)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	defer func() { _ = response.Body.Close() }()
	location, err := url.Parse(request.Path)
	if err != nil {
		return err
	}
	watches := location.Query().Get("watch") != "" && response.StatusCode == http.StatusOK
	if watches && want.Code == http.StatusOK {
		events, err := g.readEvents(cancel, response.Body, len(want.Events))
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return g.match(at+": events", append([]any{}, want.Events...), events)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if response.StatusCode != want.Code {
		return fmt.Errorf("%s: code %d, want %d; body %s", at, response.StatusCode, want.Code, body)
	}
	for name, value := range want.Headers {
		if err := g.match(at+": header "+name, value, response.Header.Get(name)); err != nil {
			return err
		}
	}
	return g.matchBody(at, want, body)
}

// matchBody compares a body that is no stream.
func (g *game) matchBody(at string, want Response, body []byte) error {
	switch {
	case want.Raw != "":
		return g.match(at, strings.TrimSpace(want.Raw), strings.TrimSpace(string(body)))
	case want.Body == nil:
		return nil
	}
	var have any
	if err := json.Unmarshal(body, &have); err != nil {
		return fmt.Errorf("%s: %w: %s", at, err, body)
	}
	return g.match(at, want.Body, have)
}

// readEvents returns the events of a watch until it ends or nothing comes any more: the wanted number has come, and then it is
// quiet for a while, or patience has an end.
func (g *game) readEvents(cancel context.CancelFunc, body io.Reader, wanted int) ([]any, error) {
	events := []any{}
	decoder := json.NewDecoder(body)
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	for {
		if len(events) >= wanted {
			timer.Reset(cmp.Or(g.Quiet, patience))
		}
		var event any
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
			return events, nil
		case err != nil:
			return nil, err
		}
		events = append(events, event)
	}
}

// match compares what was recorded with what came, and binds placeholders.
func (g *game) match(at string, want, have any) error {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if strings.HasSuffix(at, ".details") {
			SortConflicts(want["causes"])
			SortConflicts(have["causes"])
		}
		if g.AnyOrder {
			SortEntries(want["managedFields"])
			SortEntries(have["managedFields"])
		}
		if !ok {
			return fmt.Errorf("%s: %v, want %v", at, have, want)
		}
		return g.matchMaps(at, want, have)
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Errorf("%s: %v, want %v", at, have, want)
		}
		for i := range want {
			if err := g.match(fmt.Sprintf("%s[%d]", at, i), want[i], have[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		have, ok := have.(string)
		if !ok || !g.matchText(want, have) {
			return fmt.Errorf("%s:\n have %v\n want %v, with %v", at, have, want, g.bound)
		}
		return nil
	default:
		if !reflect.DeepEqual(want, have) {
			return fmt.Errorf("%s: %v, want %v", at, have, want)
		}
		return nil
	}
}

func (g *game) matchMaps(at string, want, have map[string]any) error {
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for name := range have {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, wanted := want[name]
		b, given := have[name]
		if !wanted && name == "managedFields" {
			continue // left out of what was recorded, but where a case is about them
		}
		if wanted != given {
			return fmt.Errorf("%s.%s: have %v, want %v", at, name, b, a)
		}
		if err := g.match(at+"."+name, a, b); err != nil {
			return err
		}
	}
	return nil
}

// inScheme is what a real server calls its schemes in messages: a line of its source, which depends on how it was built.
var inScheme = regexp.MustCompile(`in scheme "[^"]*"`)

// SortEntries puts the entries of managedFields in an order that does not depend on time.
func SortEntries(entries any) {
	list, _ := entries.([]any)
	slices.SortStableFunc(list, func(a, b any) int {
		x, _ := a.(map[string]any)
		y, _ := b.(map[string]any)
		return cmp.Or(strings.Compare(fmt.Sprint(x["operation"]), fmt.Sprint(y["operation"])),
			strings.Compare(fmt.Sprint(x["manager"], x["subresource"], x["apiVersion"]),
				fmt.Sprint(y["manager"], y["subresource"], y["apiVersion"])))
	})
}

// SortConflicts sorts the causes of a refused apply, which a real server gives in a random order.
func SortConflicts(causes any) {
	list, _ := causes.([]any)
	slices.SortStableFunc(list, func(a, b any) int {
		x, _ := a.(map[string]any)
		y, _ := b.(map[string]any)
		if x["reason"] != string(metav1.CauseTypeFieldManagerConflict) {
			return 0
		}
		return strings.Compare(fmt.Sprint(x["message"], x["field"]), fmt.Sprint(y["message"], y["field"]))
	})
}

// inLines sorts the conflicts that an apply tells of: a real server tells them in a random order.
func inLines(text string) string {
	first, rest, several := strings.Cut(text, "\n")
	if !several || !strings.HasPrefix(first, "Apply failed with ") {
		return text
	}
	head, manager, _ := strings.Cut(first, ": ")
	var lines []string
	for line := range strings.SplitSeq(manager+"\n"+rest, "\n") {
		if strings.HasPrefix(line, "- ") {
			line = manager + " " + line
		} else {
			manager = line
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return head + ": " + strings.Join(lines, "\n")
}

// Plain returns a text without what depends on how a server was built: the diffs that some refusals end with, which a real server
// makes from its internal types, and the name of its scheme. Conflicts of an apply, which come in a random order, are sorted.
func Plain(text string) string {
	text, _, _ = strings.Cut(text, "\n@@ ")
	return inScheme.ReplaceAllString(inLines(text), "in a scheme")
}

// matchText matches a text that may hold placeholders.
func (g *game) matchText(want, have string) bool {
	want, have = Plain(want), Plain(have)
	var pattern bytes.Buffer
	var names []string
	last := 0
	for _, at := range placeholder.FindAllStringIndex(want, -1) {
		name := want[at[0]:at[1]]
		pattern.WriteString(regexp.QuoteMeta(want[last:at[0]]))
		last = at[1]
		if value, ok := g.bound[name]; ok && name != "$CONTINUE" {
			pattern.WriteString(regexp.QuoteMeta(value))
			continue
		}
		names = append(names, name)
		pattern.WriteString("(.+)")
	}
	pattern.WriteString(regexp.QuoteMeta(want[last:]))
	found := regexp.MustCompile("^" + pattern.String() + "$").FindStringSubmatch(have)
	if found == nil {
		return false
	}
	for i, name := range names {
		if name != "$TIME" && name != "$N" && name != "$RVNOW" {
			g.bound[name] = found[i+1]
		}
	}
	return true
}

// checkRanks checks that revisions are in the order of their ranks.
func (g *game) checkRanks() error {
	last := int64(0)
	for rank := 1; ; rank++ {
		text, ok := g.bound["$RV"+strconv.Itoa(rank)]
		if !ok {
			return nil
		}
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil || revision <= last {
			return fmt.Errorf("$RV%d is %s, want more than %d", rank, text, last)
		}
		last = revision
	}
}

// checkUIDs checks that different objects have different UIDs.
func (g *game) checkUIDs() error {
	seen := map[string]string{}
	for name, value := range g.bound {
		if !strings.HasPrefix(name, "$UID") {
			continue
		}
		if other, ok := seen[value]; ok {
			return fmt.Errorf("%s and %s are both %s", name, other, value)
		}
		seen[value] = name
	}
	return nil
}
