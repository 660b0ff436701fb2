package apiserver

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// create answers a POST; pkg/endpoints/handlers/create.go and Store.create of
// pkg/registry/generic/registry/store.go.
func (s *Server) create(req *Request) *Response {
	obj, err := s.body(req)
	if err != nil {
		return failed(err)
	}
	if req.Name != "" && obj.GetName() != "" && req.Name != obj.GetName() {
		return failed(badRequest("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), req.Name))
	}
	if err := s.admitNamespace(req.Kind, obj); err != nil {
		return failed(err)
	}
	wipeSystemFields(obj)
	return s.createNew(req, obj)
}

// wipeSystemFields drops what nobody says of a new object; pkg/registry/rest/meta.go WipeObjectMetaSystemFields.
func wipeSystemFields(obj Object) {
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// body takes the object of a request: in stored form, in the request's namespace, with its defaults.
func (s *Server) body(req *Request) (Object, *statusError) {
	k := req.view()
	if req.Object == nil {
		return nil, badRequest("the request for %s has no object", k)
	}
	if u, ok := req.Object.(*unstructured.Unstructured); ok && u.GroupVersionKind().GroupVersion() == k.GroupVersion() {
		req.takeSaid(u)
	}
	obj, err := k.toStored(req.Object)
	unreadable := errors.Unwrap(err)
	if err == nil {
		unreadable = k.checkEmbedded(obj)
	}
	switch {
	case unreadable != nil:
		return nil, badRequest("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, unreadable)
	case err != nil:
		return nil, badRequest("%v", err)
	}
	if err := placeIn(req.Namespace, obj); err != nil {
		return nil, err
	}
	k.receive(obj, k.dropped(req.Subresource))
	req.dropRepeatedOwners(obj, "")
	return req.stored(obj)
}

// dropRepeatedOwners drops owner references that the object has twice, with a warning; pkg/endpoints/handlers/rest.go
// dedupOwnerReferencesAndAddWarning.
func (r *Request) dropRepeatedOwners(obj Object, when string) {
	if r.Kind.owners(obj) < 2 {
		return
	}
	var kept []metav1.OwnerReference
	var repeated []string
	for _, reference := range obj.GetOwnerReferences() {
		if slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool { return sameOwner(k, reference) }) {
			repeated = append(repeated, string(reference.UID))
		} else {
			kept = append(kept, reference)
		}
	}
	if len(repeated) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	r.warnings = append(r.warnings, ".metadata.ownerReferences contains duplicate entries"+when+"; API server dedups owner "+
		"references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "+
		"observed: "+strings.Join(repeated, ", "))
}

// placeIn sees to it that the object is in the namespace of the request; pkg/registry/rest/meta.go
// EnsureObjectNamespaceMatchesRequestNamespace.
func placeIn(namespace string, obj Object) *statusError {
	switch own := obj.GetNamespace(); {
	case own == namespace:
	case own == "" || namespace == "":
		obj.SetNamespace(namespace)
	default:
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// createNew creates an object that has its defaults and its place.
func (s *Server) createNew(req *Request, obj Object) *Response {
	return s.createClaimed(req, obj, s.claimNew(req, obj))
}

// receiveMissing drops what nobody says of a new object from one that an update or a patch creates. Its revision is dropped by the
// storage, which a dry run does not come to: pkg/registry/generic/registry/dryrun.go. Until v1.37 such an object could come to be
// in deletion: recorded from kube-apiserver v1.36.3 and v1.37.1.
func (s *Server) receiveMissing(req *Request, obj Object) {
	if !req.DryRun {
		obj.SetResourceVersion("")
	}
	if s.kinds.version != V136 {
		wipeSystemFields(obj)
	}
}

// createClaimed creates an object of whose fields it is known who owns them.
func (s *Server) createClaimed(req *Request, obj Object, c claim) *Response {
	k := req.Kind
	if req.review != nil {
		var err *statusError
		if obj, err = req.review.mutate(obj, nil, &c); err != nil {
			return failed(err)
		}
	}
	if err := s.checkGrant(req, obj, nil); err != nil {
		return failed(err)
	}
	if obj.GetName() != "" || obj.GetGenerateName() == "" {
		return s.createNamed(req, obj, c)
	}
	role := nameRole(k, obj)
	first := s.names.count(role)
	for n := first; ; n++ {
		obj.SetName(generatedName(obj.GetGenerateName(), role, n))
		taken := s.table(k).get(obj.GetNamespace(), obj.GetName()) != nil
		if taken && n+1 < first+nameAttempts {
			continue
		}
		if taken {
			return failed(apierrors.NewGenerateNameConflict(req.view().GroupResource(), obj.GetName(), 1))
		}
		response := s.createNamed(req, obj, c)
		if response.Committed != 0 {
			s.names.set(role, n+1)
		}
		return response
	}
}

// initialize sets what a client may not decide about a new object, and what the default admission plugins make of it.
// Nothing is allocated for a Service that a write to its status makes: pkg/registry/core/service/storage/storage.go.
func (s *Server) initialize(k *Kind, obj Object, uid types.UID, subresource string) *statusError {
	obj.SetUID(uid)
	obj.SetCreationTimestamp(s.timestamp())
	if k.admit != nil && subresource == "" {
		if err := k.admit(s, obj); err != nil {
			return err
		}
	}
	if k.Generation.counts() {
		obj.SetGeneration(1)
	}
	if k.HasStatus && !k.CreateKeepsStatus {
		k.clearStatus(obj)
	}
	if k.PrepareCreate != nil && subresource == "" {
		k.PrepareCreate(obj)
	}
	return nil
}

// createNamed validates and commits a new object that has its final name.
func (s *Server) createNamed(req *Request, obj Object, c claim) *Response {
	k := req.Kind
	key := uidKey(k, obj.GetNamespace(), obj.GetName())
	n := s.uids.count(key)
	uid := uidFor(key, n)
	if req.dryRun() { // the object that is created afterwards has another UID
		tried := key + "?dryRun"
		uid = uidFor(tried, s.uids.count(tried))
		s.uids.set(tried, s.uids.count(tried)+1)
	}
	version, _ := req.inVersion(nil)
	if err := s.initialize(version, obj, uid, req.Subresource); err != nil {
		return failed(err)
	}
	errs := req.validateSaid()
	if len(errs) == 0 {
		errs = s.validateNew(req.rules(), obj)
	}
	if len(errs) > 0 {
		return failed(req.invalid(obj.GetName(), errs))
	}
	req.warnFinalizers(obj, nil)
	if warn := k.warnsOf(req.Subresource); warn != nil {
		req.warnings = append(req.warnings, warn(obj, nil)...)
	}
	obj = req.home(obj)
	if err := s.admitValid(req, obj, nil); err != nil {
		return failed(err)
	}
	if revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64); err == nil && revision != 0 && !req.DryRun {
		return failed(plain("resourceVersion should not be set on objects to be created"))
	}
	if existing := s.table(k).get(obj.GetNamespace(), obj.GetName()); existing != nil {
		err := apierrors.NewAlreadyExists(req.view().GroupResource(), obj.GetName())
		if existing.object.GetDeletionTimestamp() != nil {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
		return failed(err)
	}
	if c.tracked() {
		putManagedFields(k, obj, c.entries)
	}
	lacking := k.reread != nil && k.reread(obj, nil)
	k.settleForm(obj)
	if req.DryRun {
		return &Response{Code: http.StatusCreated, Object: obj}
	}
	s.uids.set(key, n+1)
	response := s.committed(obj, nil, s.commitClaim(k, obj, nil, c))
	s.noteLacking(k, obj, lacking)
	response.Code = http.StatusCreated
	return response
}

// admitValid asks those admission plugins about a valid object that only refuse: the default ones, and then the webhooks.
func (s *Server) admitValid(req *Request, obj, stored Object) *statusError {
	if vet := req.Kind.vet; vet != nil && req.Subresource == "" {
		if err := vet(s, obj, stored); err != nil {
			return err
		}
	}
	if req.review != nil {
		return req.review.validateStored(obj, stored)
	}
	return nil
}

// warnsOf returns what warns of a write to the main resource or a subresource, nil if nothing does.
func (k *Kind) warnsOf(subresource string) func(obj, old Object) []string {
	switch subresource {
	case "":
		return k.warn
	case "status":
		return k.warnStatus
	default:
		return nil
	}
}

// validateNew checks a new object.
func (s *Server) validateNew(k *Kind, obj Object) field.ErrorList {
	if k.MetadataLast {
		if errs := k.Validate(obj, nil, s.kinds.version); len(errs) > 0 {
			return errs
		}
	}
	errs := builtin.ValidateMetadata(obj, nil, k.metadataRules(""), string(s.kinds.version))
	if k.Validate != nil {
		errs = append(errs, k.Validate(obj, nil, s.kinds.version)...)
	}
	if k.checkRules != nil {
		errs = append(errs, k.checkRules(obj, nil, errs)...)
	}
	return errs
}
