package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// get answers a GET of one object.
func (s *Server) get(req *Request) *Response {
	revision, err := s.readRevision(req.ResourceVersion)
	if err != nil {
		return failed(err)
	}
	if revision > s.revision {
		return failed(tooLargeRevision(revision, s.revision))
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.view(), req.Name))
	}
	response := &Response{Code: http.StatusOK, Object: e.object, Revision: e.revision}
	if s.tracks(req.Kind) {
		response.Object = s.WithManagedFields(req.Kind, e.object)
	}
	return response
}

// readRevision parses the resourceVersion of a read; zero is any.
func (s *Server) readRevision(text string) (int64, *statusError) {
	if text == "" || text == "0" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		_, parseErr := strconv.ParseUint(text, 10, 64)
		if parseErr == nil {
			parseErr = err
		}
		return 0, plain("resourceVersion: Invalid value: " + strconv.Quote(text) + ": " + parseErr.Error())
	}
	return int64(revision), nil
}

// The messages of pkg/storage/etcd3/errors.go.
const (
	listExpired          = "The resourceVersion for the provided list is too old."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. You can start a " +
		"new list without the continue parameter, or use the continue token in this response to retrieve the remainder of " +
		"the results. Continuing with the provided token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned and now may show up in the list."
)

// continueToken is where a paged list goes on: after a storage key, at the revision of the first page. A revision of -1
// is the latest one. The form is that of pkg/storage/continue.go.
type continueToken struct {
	APIVersion string `json:"v"`
	Revision   int64  `json:"rv"`
	Start      string `json:"start"`
}

func (t continueToken) encode() string {
	data, _ := json.Marshal(t) // three plain fields cannot fail
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeContinue(text string) (continueToken, *statusError) {
	var token continueToken
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &token)
	}
	const refused = "invalid continue token: continue key is not valid: "
	switch {
	case err != nil:
		return token, badRequest(refused+"%v", err)
	case token.APIVersion != "meta.k8s.io/v1":
		return token, badRequest(refused+"server does not recognize this encoded version %v", token.APIVersion)
	case token.Revision == 0:
		return token, badRequest(refused + "incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case token.Start == "":
		return token, badRequest(refused + "encoded start key empty (version meta.k8s.io/v1)")
	}
	if key := "/" + strings.TrimPrefix(token.Start, "/"); path.Clean(key) != key {
		return token, badRequest(refused+"%v", token.Start)
	}
	return token, nil
}

// page is which entries a list returns.
type page struct {
	span           // of the state that is listed, in the namespace asked for
	revision int64 // of that state
	limit    int64 // zero for no limit
}

// list answers a GET of a collection.
func (s *Server) list(req *Request) *Response {
	if errs := listvalidation.ValidateListOptions(&internalversion.ListOptions{
		ResourceVersion: req.ResourceVersion, ResourceVersionMatch: req.ResourceVersionMatch, Continue: req.Continue,
	}, true); len(errs) > 0 {
		return failed(apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs))
	}
	view := req.view()
	if err := view.checkFieldSelector(req.FieldSelector); err != nil {
		return failed(err)
	}
	p, err := s.page(req)
	if err != nil {
		return failed(err)
	}
	everything := (req.LabelSelector == nil || req.LabelSelector.Empty()) &&
		(req.FieldSelector == nil || req.FieldSelector.Empty())
	// Whatever comes after a full page makes it go on, also what is not selected; but for one name nothing else is looked at.
	name, single := "", false
	if req.FieldSelector != nil && req.Continue == "" {
		name, single = req.FieldSelector.RequiresExactMatch("metadata.name")
	}
	response := &Response{Code: http.StatusOK, Items: []Object{}, Revision: p.revision}
	seen := int64(0)
	for e := range p.entries() {
		seen++
		if single && e.name != name {
			continue
		}
		if p.limit > 0 && int64(len(response.Items)) == p.limit {
			last := response.Items[p.limit-1]
			start := req.Kind.continueKey(req.Namespace, last.GetNamespace(), last.GetName())
			token := continueToken{APIVersion: "meta.k8s.io/v1", Revision: p.revision, Start: start + "\x00"}
			response.Continue = token.encode()
			if everything {
				response.Remaining = new(int64(p.len()) - seen + 1)
			}
			break
		}
		if everything || view.Matches(req.shown(e.object), req.LabelSelector, req.FieldSelector) {
			response.Items = append(response.Items, e.object)
		}
	}
	s.showOwners(req.Kind, response.Items)
	return response
}

// page finds the state a list is of; pkg/storage/etcd3/store.go GetList.
func (s *Server) page(req *Request) (page, *statusError) {
	t := s.table(req.Kind)
	p := page{revision: s.revision, limit: req.Limit}
	if req.Continue != "" {
		return s.nextPage(req, p)
	}
	revision, err := s.readRevision(req.ResourceVersion)
	if err != nil {
		return page{}, badRequest("invalid resource version: %s", err.ErrStatus.Message)
	}
	exact := req.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		req.ResourceVersionMatch == "" && revision > 0 && req.Limit > 0
	switch {
	case revision > s.revision:
		return page{}, tooLargeRevision(revision, s.revision)
	case exact && revision < s.compacted:
		return page{}, apierrors.NewResourceExpired(listExpired)
	case exact:
		p.revision = revision
	case req.ResourceVersion == "0":
		p.limit = 0 // answered by the watch cache, which does not page
	}
	p.span = t.at(p.revision).inNamespace(req.Namespace)
	return p, nil
}

// nextPage goes on where a continue token says.
func (s *Server) nextPage(req *Request, p page) (page, *statusError) {
	token, err := decodeContinue(req.Continue)
	if err != nil {
		return p, err
	}
	if req.ResourceVersion != "" && req.ResourceVersion != "0" {
		return p, badRequest("specifying resource version is not allowed when using continue")
	}
	if req.ResourceVersion == "0" {
		p.limit = 0 // as on the first page
	}
	if token.Revision > s.revision {
		return p, tooLargeRevision(token.Revision, s.revision)
	}
	if token.Revision > 0 && token.Revision < s.compacted {
		expired := apierrors.NewResourceExpired(inconsistentContinue)
		expired.ErrStatus.Continue = continueToken{APIVersion: token.APIVersion, Revision: -1, Start: token.Start}.encode()
		return p, expired
	}
	if token.Revision > 0 {
		p.revision = token.Revision
	}
	listed := s.table(req.Kind).at(p.revision)
	start := strings.TrimSuffix(token.Start, "\x00")
	namespace, name := req.Namespace, start
	if req.Namespace == "" && req.Kind.Namespaced {
		namespace, name, _ = strings.Cut(start, "/")
	}
	next, found := listed.find(namespace, name)
	if found {
		next.at++
	}
	p.span = listed.inNamespace(req.Namespace).from(next)
	return p, nil
}

// continueKey is the place of an object below the collection that is listed.
func (k *Kind) continueKey(listed, namespace, name string) string {
	if listed == "" && k.Namespaced {
		return namespace + "/" + name
	}
	return name
}

// fieldSet returns the values of the object's fields that a field selector can name.
func (k *Kind) fieldSet(obj Object) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName()}
	if k.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	for label, value := range k.Fields {
		set[label] = value(obj)
	}
	return set
}

// Matches reports whether the selectors choose the object; nil selects all.
func (k *Kind) Matches(obj Object, byLabel labels.Selector, byField fields.Selector) bool {
	if byLabel != nil && !byLabel.Empty() && !byLabel.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return byField == nil || byField.Empty() || byField.Matches(k.fieldSet(obj))
}

// checkFieldSelector refuses a selector by fields the kind cannot be selected by;
// runtime.DefaultMetaV1FieldSelectorConversion of k8s.io/apimachinery, and pkg/apis/core/v1/conversion.go of
// k8s.io/kubernetes.
func (k *Kind) checkFieldSelector(selector fields.Selector) *statusError {
	if selector == nil {
		return nil
	}
	for _, requirement := range selector.Requirements() {
		label := requirement.Field
		if label == "metadata.name" || label == "metadata.namespace" || k.Fields[label] != nil {
			continue
		}
		switch {
		case k.UnknownField != "":
			return badRequest(k.UnknownField, label)
		case k.Custom() || k.Fields != nil:
			return badRequest("field label not supported: %s", label)
		}
		return badRequest("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
	}
	return nil
}
