// Package recorded holds the form in which answers of real API servers are recorded, and plays them against any server: ours, or
// a real one, by which the player itself is proven.
//
// Answers are compared by what they mean. Recorded texts hold placeholders, which are bound to what the server says in the place
// where one appears first: $UIDn for the n-th UID, $RVn for the n-th lowest resourceVersion of the case, so that their order counts,
// $TIME for any time, $RVNOW for the revision of the moment, $CONTINUE for a token, $N for anything else. A request that holds
// one is sent with the value. managedFields are compared where the recording has them.
package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Case is a recording: what was done first, the request that it is about, and what was done then. The namespace g-NAME exists when
// it begins.
type Case struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"` // of similar cases
	Doc   string `json:"doc,omitempty"`
	// Server is what was recorded.
	Server string `json:"server,omitempty"`
	// Definitions names the custom resources that the case needs, if they are not those of all.
	Definitions string   `json:"definitions,omitempty"`
	Setup       []Step   `json:"setup"`
	Request     Request  `json:"request"`
	Answer      Response `json:"response"`
	After       []Step   `json:"after,omitempty"`
}

// Step is a request and its answer.
type Step struct {
	Note    string   `json:"note,omitempty"`
	Request Request  `json:"request"`
	Answer  Response `json:"response"`
}

// Request is a request. Its body is Body or RawBody.
type Request struct {
	Verb        string          `json:"verb"` // the method
	Path        string          `json:"path"` // with the query
	ContentType string          `json:"contentType,omitempty"`
	Accept      string          `json:"accept,omitempty"`
	User        string          `json:"user,omitempty"` // "anonymous", or a name; an administrator if empty
	Body        json.RawMessage `json:"body,omitempty"`
	RawBody     string          `json:"rawBody,omitempty"`
}

// Response is an answer: a body, the events of a watch, or a text that is no JSON.
type Response struct {
	Code    int               `json:"code"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    any               `json:"body,omitempty"`
	Events  []any             `json:"events,omitempty"`
	Raw     string            `json:"raw,omitempty"`
}

// Read reads a case.
func Read(data []byte) (Case, error) {
	var c Case
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("recorded case: %w", err)
	}
	return c, nil
}

// ReadPacked reads the cases of a compressed list.
func ReadPacked(packed io.Reader) ([]Case, error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	var cases []Case
	if err := json.NewDecoder(unpacked).Decode(&cases); err != nil {
		return nil, fmt.Errorf("recorded cases: %w", err)
	}
	return cases, unpacked.Close()
}

// Namespace is the one that exists when the case begins.
func (c *Case) Namespace() string { return "g-" + c.Name }

// Steps are all requests of the case, in order.
func (c *Case) Steps() []Step {
	steps := append([]Step{}, c.Setup...)
	return append(append(steps, Step{Request: c.Request, Answer: c.Answer}), c.After...)
}

// ReadsManagedFields reports whether the case is about managedFields.
func (c *Case) ReadsManagedFields() bool {
	data, err := json.Marshal(c)
	return err != nil || bytes.Contains(data, []byte("managedFields"))
}

// Expired reports whether history was gone when the request of the case was made.
func (c *Case) Expired() bool {
	if len(c.Answer.Events) == 1 {
		event, _ := c.Answer.Events[0].(map[string]any)
		status, _ := event["object"].(map[string]any)
		return status["reason"] == string(metav1.StatusReasonExpired)
	}
	return c.Answer.Code == http.StatusGone
}
