package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The texts of this file are those of k8s.io/apiserver v1.36; clients match on some of them.

// optimisticLock is OptimisticLockErrorMsg of pkg/registry/generic/registry/store.go.
const optimisticLock = "the object has been modified; please apply your changes to the latest version and try again"

// statusError is the concrete type of every error the server answers with.
type statusError = apierrors.StatusError

// errorText is an error that is its text.
type errorText string

func (e errorText) Error() string { return string(e) }

func notFound(k *Kind, name string) *statusError {
	return apierrors.NewNotFound(k.GroupResource(), name)
}

func badRequest(format string, args ...any) *statusError {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// conflict is a lost race for the object itself.
func conflict(k *Kind, name string) *statusError {
	return apierrors.NewConflict(k.GroupResource(), name, errors.New(optimisticLock))
}

// uidConflict is a PUT of another object of the same name, as the storage layer reports it: pkg/storage/errors.go
// NewInvalidObjError.
func uidConflict(k *Kind, namespace, name string, want, have types.UID, dryRun bool) *statusError {
	return storageConflict(k, namespace, name, "UID", string(want), string(have), dryRun)
}

// storageConflict is a write to another object or another state of one than it says.
func storageConflict(k *Kind, namespace, name, what, want, have string, dryRun bool) *statusError {
	key := "/registry/" + k.storagePath + "/"
	if dryRun { // nothing asks the storage, which knows the prefix: pkg/registry/generic/registry/dryrun.go
		key = "/" + k.storagePath + "/"
	}
	if k.Namespaced {
		key += namespace + "/"
	}
	text := fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s%s, ResourceVersion: 0, AdditionalErrorMsg: "+
		"Precondition failed: %s in precondition: %s, %s in object meta: %s", key, name, what, want, what, have)
	return apierrors.NewConflict(k.GroupResource(), name, text)
}

// preconditionFailed is a DELETE whose precondition does not hold. It names the kind where other conflicts name the
// resource: pkg/registry/rest/delete.go BeforeDelete.
func preconditionFailed(k *Kind, name, what, want, have, consequence string) *statusError {
	text := fmt.Errorf("the %s in the precondition (%s) does not match the %s in record (%s). The object might have been %s",
		what, want, what, have, consequence)
	return apierrors.NewConflict(schema.GroupResource{Group: k.Group, Resource: k.Kind}, name, text)
}

// invalid is a failed validation.
func invalid(k *Kind, name string, errs field.ErrorList) *statusError {
	return apierrors.NewInvalid(k.GroupKind(), name, errs)
}

// revisionRequired is a PUT without a resourceVersion of a kind that needs one. It names the resource where other
// validation errors name the kind: store.go Update.
func revisionRequired(k *Kind, name string) *statusError {
	path := field.NewPath("metadata").Child("resourceVersion")
	errs := field.ErrorList{field.Invalid(path, 0, "must be specified for an update")}
	return apierrors.NewInvalid(schema.GroupKind{Group: k.Group, Kind: k.Resource}, name, errs)
}

// plain is an error that is not a StatusError on a real server: a 500 without a reason,
// pkg/endpoints/handlers/responsewriters/status.go.
func plain(message string) *statusError {
	return &statusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}

// unsupportedPatch is a patch of a type the kind does not take: pkg/endpoints/handlers/negotiation/errors.go.
func unsupportedPatch(accepted ...types.PatchType) *statusError {
	names := make([]string, len(accepted))
	for i, patchType := range accepted {
		names[i] = string(patchType)
	}
	return &statusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(names, ", "),
	}}
}

// noSuchResource is a path that leads nowhere.
func noSuchResource() *statusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

// noSuchMethod is a method that a path does not take.
func noSuchMethod() *statusError {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

// noSubresource is a request for a subresource that its kind does not have; of a custom resource, serveResource in
// pkg/apiserver/customresource_handler.go of k8s.io/apiextensions-apiserver.
func (r *Request) noSubresource() *statusError {
	if r.Kind.Custom() {
		return notFound(r.Kind, r.Name)
	}
	return noSuchResource()
}

// noMethod is a request for what cannot be done with a subresource.
func (r *Request) noMethod() *statusError {
	if r.Kind.Custom() {
		return apierrors.NewMethodNotSupported(r.Kind.GroupResource(), strings.ToLower(string(r.Verb)))
	}
	return noSuchMethod()
}

// tooLargeRevision is a read at a revision that has not happened: pkg/storage/errors.go NewTooLargeResourceVersionError.
func tooLargeRevision(want, have int64) *statusError {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"},
	}
	return err
}
