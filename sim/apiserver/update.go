package apiserver

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
	"github.com/stalemate-dev/stalemate/sim/canon"
)

// update answers a PUT; pkg/endpoints/handlers/update.go.
func (s *Server) update(req *Request) *Response {
	obj, err := s.body(req)
	if err != nil {
		return failed(err)
	}
	if err := checkName(req, obj); err != nil {
		return failed(err)
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil && !req.createsByUpdate() {
		return failed(notFound(req.view(), req.Name))
	}
	want, have := obj.GetUID(), types.UID("")
	if e != nil {
		have = e.object.GetUID()
	}
	if want != "" && want != have {
		return failed(uidConflict(req.view(), req.Namespace, req.Name, want, have, req.DryRun))
	}
	if e != nil {
		return s.replace(req, obj, e)
	}
	if err := checkReadable(obj.GetResourceVersion()); err != nil {
		return failed(err)
	}
	if refusal := req.createForbidden(); refusal != nil {
		return refusal
	}
	if err := s.admitNamespace(req.Kind, obj); err != nil {
		return failed(err)
	}
	s.receiveMissing(req, obj)
	return s.createNew(req, obj)
}

// createsByUpdate reports whether an update creates the object if there is none, also one of its status: AllowCreateOnUpdate of the
// strategies.
func (r *Request) createsByUpdate() bool {
	return r.Kind.CreateOnUpdate && (r.Subresource == "" || r.Subresource == "status")
}

// checkName refuses an object of another name; pkg/endpoints/handlers/rest.go checkName.
func checkName(req *Request, obj Object) *statusError {
	switch name := obj.GetName(); name {
	case "":
		return badRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", req.Name)
	case req.Name:
		return nil
	default:
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", name, req.Name)
	}
}

// replace is the part that PUT and PATCH share: the stored object gives way to obj, which belongs to the server; Store.Update
// of pkg/registry/generic/registry/store.go.
func (s *Server) replace(req *Request, obj Object, e *entry) *Response {
	return s.replaceThrough(req, req.Subresource, obj, e)
}

// replaceThrough does so for a request to a subresource, which may own what it changes of the main resource.
func (s *Server) replaceThrough(req *Request, subresource string, obj Object, e *entry) *Response {
	if err := s.admitUpdate(req, obj, e); err != nil {
		return failed(err)
	}
	stored := e.object // the claim may make the entry another one
	c := s.claim(req, subresource, obj, e)
	if req.said != nil && req.Kind.fields.version(*req.said) == nil {
		// Nobody can say who owns what of it: UpdateNoErrors of internal/fieldmanager.go.
		c = claim{write: write{by: recorded}, before: s.ownershipOf(req.Kind, e)}
	}
	return s.settle(req, obj, stored, c)
}

// admitUpdate refuses an update of an object whose namespace has gone, or that was made from another revision of it. Mutating
// webhooks are asked before the revision is looked at: where there are any, that is left to [Server.mutateUpdate].
func (s *Server) admitUpdate(req *Request, obj Object, e *entry) *statusError {
	if err := s.admitNamespaceOf(req); err != nil {
		return err
	}
	if req.review != nil {
		return nil
	}
	return checkRevision(req.view(), obj, e)
}

// settle is the rest of it, once it is known who owns the fields of the new object: its steps are those of Store.Update,
// rest.BeforeUpdate and GuaranteedUpdate, in their order.
func (s *Server) settle(req *Request, obj, stored Object, c claim) *Response {
	k := req.Kind
	if req.review != nil {
		var err *statusError
		if obj, err = s.mutateUpdate(req, obj, stored, &c); err != nil {
			return failed(err)
		}
	}
	if err := req.checkSaid(); err != nil {
		return failed(err)
	}
	if err := s.checkGrant(req, obj, stored); err != nil {
		return failed(err)
	}
	version, before := req.inVersion(stored)
	switch req.Subresource {
	case "status":
		obj = version.resetForStatus(s, obj, before)
	case "finalize":
		version.resetForFinalize(obj, before)
	default:
		version.resetForUpdate(obj, before)
	}
	if errs := s.validateUpdate(req, version, obj, before); len(errs) > 0 {
		return failed(req.invalid(req.Name, errs))
	}
	if req.Subresource == "" {
		req.warnFinalizers(obj, before)
	}
	if warn := k.warnsOf(req.Subresource); warn != nil {
		req.warnings = append(req.warnings, warn(obj, before)...)
	}
	obj = req.home(obj)
	if err := s.admitValid(req, obj, stored); err != nil {
		return failed(err)
	}
	tracked := c.tracked()
	deletes := k.deletesDuringUpdate(obj, stored)
	lacking, stale := false, false
	if !deletes { // what is deleted is neither stored nor read again
		lacking, stale = s.readAgain(k, obj, stored)
	}
	same := tracked && c.settleFields(k, obj, stored) && !stale
	switch {
	case deletes:
		response := answer(obj, stored)
		if !req.DryRun {
			response.Committed = s.commit(k, nil, stored)
		}
		return response
	case same && c.rewrites() && !req.DryRun:
		if c.untidy == "" {
			c.entries = c.before.entries
		}
		putManagedFields(k, obj, c.entries)
		return s.committed(obj, stored, s.commitClaim(k, obj, stored, c))
	case same:
		return answer(k.full(c.before, stored), stored)
	case !tracked && !stale && canon.Equal(obj, stored) && !s.changesOwners(k, stored, c):
		return answer(stored, stored)
	case req.DryRun:
		return answer(obj, stored)
	default:
		response := s.committed(obj, stored, s.commitClaim(k, obj, stored, c))
		s.noteLacking(k, obj, lacking)
		return response
	}
}

// readAgain brings an object into the form in which it is read after it was stored, and reports whether it is stored without defaults
// that it is read with, and whether that is new.
func (s *Server) readAgain(k *Kind, obj, stored Object) (lacking, stale bool) {
	if k.reread != nil {
		lacking = k.reread(obj, stored)
		stale = lacking != s.table(k).get(stored.GetNamespace(), stored.GetName()).lacking
	}
	k.settleForm(obj)
	return lacking, stale
}

// noteLacking remembers that an object was stored without the defaults that it has when it is read.
func (s *Server) noteLacking(k *Kind, obj Object, lacking bool) {
	if lacking {
		s.table(k).writable(obj.GetNamespace(), obj.GetName()).lacking = true
	}
}

// write commits a new state of an object that the server made itself, unless it is the old one or this is a dry run.
func (s *Server) write(k *Kind, obj, stored Object, dryRun bool) *Response {
	switch {
	case canon.Equal(obj, stored):
		return answer(stored, stored)
	case dryRun:
		return answer(obj, stored)
	default:
		return s.committed(obj, stored, s.commit(k, obj, stored))
	}
}

// checkReadable refuses a revision that is no number.
func checkReadable(revision string) *statusError {
	if _, err := strconv.ParseUint(revision, 10, 64); err != nil && revision != "" {
		return plain(err.Error())
	}
	return nil
}

// checkRevision is optimistic concurrency: the object must have been made from the stored revision, or say nothing where
// the kind allows that.
func checkRevision(k *Kind, obj Object, e *entry) *statusError {
	text := obj.GetResourceVersion()
	if text == e.object.GetResourceVersion() {
		return nil
	}
	if err := checkReadable(text); err != nil {
		return err
	}
	revision, _ := strconv.ParseUint(text, 10, 64)
	switch {
	case revision == 0 && k.UnconditionalUpdate:
		obj.SetResourceVersion(e.object.GetResourceVersion())
		return nil
	case revision == 0:
		return revisionRequired(k, e.name)
	case revision != uint64(e.revision):
		return conflict(k, e.name)
	default:
		obj.SetResourceVersion(e.object.GetResourceVersion())
		return nil
	}
}

// resetForUpdate undoes what a write to the main resource may not change, and counts the generation.
func (k *Kind) resetForUpdate(obj, stored Object) {
	k.keepSystemFields(obj, stored)
	if k.HasStatus {
		k.takeStatus(obj, stored)
	}
	if k.PrepareUpdate != nil {
		k.PrepareUpdate(obj, stored)
	}
	if k.changesGeneration(obj, stored) {
		obj.SetGeneration(stored.GetGeneration() + 1)
	}
}

// changesGeneration reports whether the change is one that metadata.generation counts. Where the spec is the same, obj
// shares the stored one from here: readers, comparisons and validation then see at a glance that nothing changed.
func (k *Kind) changesGeneration(obj, stored Object) bool {
	if k.Custom() {
		return k.Generation == GenerationCustom && !k.sameContent(obj, stored)
	}
	same := k.sameSpec(obj, stored)
	if same {
		k.takeSpec(obj, stored)
	}
	switch k.Generation {
	case GenerationSpec, GenerationLate:
		return !same
	case GenerationSpecAndAnnotations:
		return !same || !maps.Equal(obj.GetAnnotations(), stored.GetAnnotations())
	case GenerationContent:
		return !k.sameBody(obj, stored)
	case GenerationContentAndLabels:
		return !k.sameBody(obj, stored) || !maps.Equal(obj.GetLabels(), stored.GetLabels())
	default:
		return false
	}
}

// resetForStatus undoes what a write to the status subresource may not change, and returns the object to store.
func (k *Kind) resetForStatus(s *Server, obj, stored Object) Object {
	if k.StatusKeeps == ResetAllButStatus {
		kept := k.shallowCopy(stored)
		k.takeStatus(kept, obj)
		return kept
	}
	k.takeSpec(obj, stored)
	switch k.StatusKeeps {
	case ResetSpecAndOwners:
		obj.SetDeletionTimestamp(nil)
		obj.SetOwnerReferences(stored.GetOwnerReferences())
	case ResetSpecAndLabels:
		obj.SetLabels(stored.GetLabels())
	case ResetSpec, ResetAllButStatus: // nothing more
	}
	k.keepSystemFields(obj, stored)
	if k.PrepareStatus != nil {
		k.PrepareStatus(obj, stored, s.timestamp())
	}
	return obj
}

// keepSystemFields carries over the metadata that belongs to the server; pkg/registry/rest/update.go BeforeUpdate.
func (k *Kind) keepSystemFields(obj, stored Object) {
	if k.Custom() {
		keepRawSystemFields(rawMeta(obj), rawMeta(stored))
		return
	}
	to, from := objectMeta(obj), objectMeta(stored)
	to.Generation = from.Generation
	if to.UID == "" {
		to.UID = from.UID
	}
	if !from.CreationTimestamp.IsZero() {
		to.CreationTimestamp = from.CreationTimestamp
	}
	if from.DeletionTimestamp != nil {
		to.DeletionTimestamp = from.DeletionTimestamp
	}
	if to.DeletionGracePeriodSeconds == nil {
		to.DeletionGracePeriodSeconds = from.DeletionGracePeriodSeconds
	}
}

// keepRawSystemFields does the same for a custom resource, without decoding times and numbers.
func keepRawSystemFields(to, from map[string]any) {
	keep := func(name string, always bool) {
		value, ok := from[name]
		switch {
		case ok && (always || to[name] == nil || to[name] == ""):
			to[name] = value
		case !ok && name == "generation":
			delete(to, name)
		}
	}
	keep("generation", true)
	keep("creationTimestamp", true)
	keep("deletionTimestamp", true)
	keep("uid", false)
	keep("deletionGracePeriodSeconds", false)
}

// deletesDuringUpdate reports whether the update took the last finalizer of an object that was waiting for nothing else;
// ShouldDeleteDuringUpdate of store.go. The change itself is then never stored.
func (k *Kind) deletesDuringUpdate(obj, stored Object) bool {
	if stored.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 || k.Held != nil && k.Held(obj) {
		return false
	}
	grace := stored.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// validateUpdate checks an update by the rules of a kind. What is stored is valid, so only what changed needs to be looked at.
func (s *Server) validateUpdate(req *Request, k *Kind, obj, stored Object) field.ErrorList {
	var errs field.ErrorList
	wrong := req.validateSaid()
	if obj.GetUID() != stored.GetUID() || k.changesClientMeta(obj, stored) || k.changesDeletion(obj, stored) {
		rules := req.rules().metadataRules(req.Subresource)
		if len(wrong) > 0 {
			rules.Checks = "" // its strategy does not come to that
		}
		errs = builtin.ValidateMetadata(obj, stored, rules, string(s.kinds.version))
	}
	errs = append(errs, wrong...)
	switch {
	case len(wrong) > 0:
	case req.Subresource == "status":
		if k.ValidateStatus != nil {
			errs = append(errs, k.ValidateStatus(obj, stored, s.kinds.version)...)
		}
	case req.Subresource == "finalize":
		errs = append(errs, builtin.ValidateNamespaceFinalize(as[corev1.Namespace](obj))...)
	case k.Validate != nil:
		errs = append(errs, req.rules().Validate(obj, stored, s.kinds.version)...)
	}
	if k.checkRules != nil {
		errs = append(errs, k.checkRules(obj, stored, errs)...)
	}
	return errs
}

// metadataRules returns what the validation of metadata has to know about the kind.
func (k *Kind) metadataRules(subresource string) builtin.MetadataRules {
	rules := builtin.MetadataRules{Namespaced: k.Namespaced, Name: k.ValidName, Custom: k.Custom(), Checks: k.checks[0]}
	if subresource == "status" {
		rules.Checks = k.checks[1]
	}
	return rules
}

// changesClientMeta reports whether the update changes metadata that is the client's to write.
func (k *Kind) changesClientMeta(obj, stored Object) bool {
	if k.Custom() {
		a, b := rawMeta(obj), rawMeta(stored)
		for _, name := range []string{"generateName", "labels", "annotations", "finalizers", "ownerReferences"} {
			if !canon.Equal(a[name], b[name]) {
				return true
			}
		}
		return false
	}
	a, b := objectMeta(obj), objectMeta(stored)
	return a.GenerateName != b.GenerateName || !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) ||
		!slices.Equal(a.Finalizers, b.Finalizers) || !slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, sameOwner)
}

func sameOwner(a, b metav1.OwnerReference) bool { return reflect.DeepEqual(a, b) }

// changesDeletion reports whether the update may break a rule about objects that are being deleted.
func (k *Kind) changesDeletion(obj, stored Object) bool {
	return k.movesDeletion(obj, stored) ||
		stored.GetDeletionTimestamp() != nil && !slices.Equal(obj.GetFinalizers(), stored.GetFinalizers())
}

// movesDeletion reports whether two states of an object are not deleted at the same time.
func (k *Kind) movesDeletion(obj, stored Object) bool {
	if k.Custom() {
		a, b := rawMeta(obj), rawMeta(stored)
		return a["deletionTimestamp"] != b["deletionTimestamp"] ||
			a["deletionGracePeriodSeconds"] != b["deletionGracePeriodSeconds"]
	}
	a, b := objectMeta(obj), objectMeta(stored)
	return !a.DeletionTimestamp.Equal(b.DeletionTimestamp) ||
		!samePointee(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds)
}

func samePointee(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
