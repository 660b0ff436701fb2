package apiserver

import (
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Server is one simulated API server. Make one with [NewServer] or [Snapshot.NewServer].
type Server struct {
	kinds     *Kinds
	now       Clock
	tables    []*table // by the kinds' places in the kinds table
	revision  int64    // of the latest commit
	compacted int64    // what is older than this revision is gone for readers
	uids      counter
	names     counter
	gaps      map[string]bool
	switches
	author  *author
	authors map[author]*author
	hooks   *webhooks // nil as long as nobody needs it
}

// switches are what has been turned on in a server, and stays so in those that go on from it.
type switches struct {
	tracking bool // see TrackManagedFields
	uncached bool // see WithoutWatchCache
	homeless bool // a namespace has gone, and may have left objects behind
	protects bool // see ProtectClaims
	keeps    bool // see ProtectVolumes
	taints   bool // see TaintNodes
}

// NewServer returns a server that holds nothing but the namespaces every cluster has, and the CustomResourceDefinitions of the
// kinds table.
func NewServer(kinds *Kinds, now Clock) *Server {
	s := &Server{kinds: kinds, now: now, revision: 1, gaps: map[string]bool{}}
	s.addNamespace(metav1.NamespaceDefault)
	s.addNamespace(metav1.NamespaceSystem)
	s.addNamespace(metav1.NamespacePublic)
	s.addNamespace(corev1.NamespaceNodeLease)
	s.addDefinitions()
	return s
}

// Kinds returns the kinds table of the server.
func (s *Server) Kinds() *Kinds { return s.kinds }

// Do executes a request: it commits what there is to commit and answers. The request's object belongs to the server from
// then on, the answer's objects to the store.
func (s *Server) Do(req *Request) *Response {
	req.warnings, req.applied, req.said = nil, nil, nil
	if req.Access != nil && req.alias == nil {
		if refusal := req.authorize(); refusal != nil {
			return refusal
		}
	}
	if req.Kind.Alias != nil {
		return s.doAlias(req)
	}
	var response *Response
	if s.reviewed(req) {
		response = s.doReviewed(req)
	} else {
		response = s.route(req)
	}
	response.Warnings = req.warnings
	return response
}

// route passes a request on to the resource or subresource it is for.
func (s *Server) route(req *Request) *Response {
	s.noteUse(req.Kind)
	if text := req.view().warning; text != "" {
		req.warnings = append(req.warnings, text)
	}
	if !req.Kind.Namespaced {
		req.Namespace = ""
	}
	if req.Verb == schedule.Create || req.Verb == schedule.Update {
		if err := checkWriteOptions(req); err != nil {
			return failed(err)
		}
	}
	switch req.Subresource {
	case "":
		return s.doResource(req)
	case "status":
		switch {
		case !req.view().HasStatus:
			return failed(req.noSubresource())
		case req.Verb != schedule.Get && req.Verb != schedule.Update && req.Verb != schedule.Patch:
			return failed(req.noMethod())
		}
		return s.doResource(req)
	case "scale":
		return s.doScale(req)
	case "binding":
		return s.doBinding(req)
	case "eviction":
		return s.doEviction(req)
	case "finalize":
		return s.doFinalize(req)
	default:
		if !req.Kind.Custom() {
			s.gap(fmt.Sprintf("%s/%s is not modelled: requests to it are answered with 404", req.Kind.Resource, req.Subresource))
		}
		return failed(req.noSubresource())
	}
}

func (s *Server) doResource(req *Request) *Response {
	switch req.Verb {
	case schedule.Get:
		return s.get(req)
	case schedule.List:
		return s.list(req)
	case schedule.Create:
		return s.create(req)
	case schedule.Update:
		return s.update(req)
	case schedule.Patch:
		return s.patch(req)
	case schedule.Delete:
		return s.delete(req)
	case schedule.DeleteCollection:
		return s.deleteCollection(req)
	default:
		return failed(apierrors.NewMethodNotSupported(req.Kind.GroupResource(), string(req.Verb)))
	}
}

func failed(err *statusError) *Response { return &Response{Code: int(err.ErrStatus.Code), Err: err} }

// answer is the response to a request that left the object as it is.
func answer(obj, before Object) *Response {
	return &Response{Code: http.StatusOK, Object: obj, Revision: revisionOf(obj), Before: before}
}

// committed is the response to a request that committed the object.
func (s *Server) committed(obj, before Object, revision int64) *Response {
	return &Response{Code: http.StatusOK, Object: obj, Revision: revision, Committed: revision, Before: before}
}

// noteUse remembers the gaps that a kind opens by being used.
func (s *Server) noteUse(k *Kind) {
	for _, text := range k.gaps {
		s.gap(text)
	}
}

// gap remembers that something was asked for which is not modelled.
func (s *Server) gap(text string) { s.gaps[text] = true }

// Gaps returns what was asked of the server that it does not model, sorted. While it is not empty, a pass means less than
// it seems.
func (s *Server) Gaps() []string {
	gaps := s.namespaceGaps()
	for text := range s.gaps {
		gaps = append(gaps, text)
	}
	slices.Sort(gaps)
	return gaps
}

// timestamp returns the time as the API shows it, in whole seconds.
func (s *Server) timestamp() metav1.Time { return wireTime(s.now()) }
