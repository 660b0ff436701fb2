package handler

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// get answers a GET of one object; pkg/endpoints/handlers/get.go.
func (c *call) get() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	if exports := c.r.URL.Query()["export"]; len(exports) > 0 {
		export := true
		if err := runtime.Convert_Slice_string_To_bool(&exports, &export, nil); err != nil {
			return nil, badRequest("the export parameter cannot be parsed: %v", err)
		}
		if export {
			return nil, badRequest("the export parameter, deprecated since v1.14, is no longer supported")
		}
	}
	var options metav1.GetOptions
	if err := c.parameters(&options); err != nil {
		return nil, err
	}
	req := c.request(schedule.Get)
	req.ResourceVersion = options.ResourceVersion
	return c.execute(req, form)
}

// listOptions reads and checks the parameters of a list or a watch; listOpts of get.go.
func (c *call) listOptions() (internalversion.ListOptions, error) {
	options, err := listOptions(c.r)
	if err != nil {
		return options, badRequest("%v", err)
	}
	internalversion.SetListOptionsDefaults(&options, true)
	return options, invalidOptions("ListOptions", listvalidation.ValidateListOptions(&options, true))
}

// selects puts what a list, a watch or a delete of a collection selects into a request.
func selects(req *apiserver.Request, options internalversion.ListOptions) {
	req.Name = ""
	req.LabelSelector, req.FieldSelector = options.LabelSelector, options.FieldSelector
	req.ResourceVersion, req.ResourceVersionMatch = options.ResourceVersion, options.ResourceVersionMatch
	req.Limit, req.Continue = options.Limit, options.Continue
}

// list answers a GET of a collection.
func (c *call) list() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	options, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	req := c.request(schedule.List)
	selects(req, options)
	return c.execute(req, form)
}

// watch answers a GET of a collection that asks for its changes.
func (c *call) watch() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	options, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	if name := c.target.name; name != "" && (options.FieldSelector == nil || options.FieldSelector.Empty()) {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name)
	} else if selected, ok := selectedName(options); name != "" && (!ok || selected != name) {
		return nil, badRequest("fieldSelector metadata.name doesn't match requested name")
	}
	req := c.request(schedule.Watch)
	selects(req, options)
	return c.begin(req, form, options)
}

func selectedName(options internalversion.ListOptions) (string, bool) {
	if options.FieldSelector == nil {
		return "", false
	}
	return options.FieldSelector.RequiresExactMatch("metadata.name")
}

// create answers a POST; pkg/endpoints/handlers/create.go.
func (c *call) create() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	info, err := codecs().input(c.r)
	if err != nil {
		return nil, err
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	var options metav1.CreateOptions
	if err := c.parameters(&options); err != nil {
		return nil, err
	}
	if err := invalidOptions("CreateOptions", validation.ValidateCreateOptions(&options)); err != nil {
		return nil, err
	}
	req := c.request(schedule.Create)
	if c.subresource == "" {
		req.Name = "" // the name is the object's
	}
	req.DryRun, req.FieldManager = len(options.DryRun) > 0, options.FieldManager
	if req.Object, err = c.decode(info, body, options.FieldValidation); err != nil {
		return nil, err
	}
	return c.execute(req, form)
}

// update answers a PUT; pkg/endpoints/handlers/update.go. Other than for a POST, the body is read, and the parameters are looked
// at, before its media type is.
func (c *call) update() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	var options metav1.UpdateOptions
	if err := c.parameters(&options); err != nil {
		return nil, err
	}
	if err := invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&options)); err != nil {
		return nil, err
	}
	info, err := codecs().input(c.r)
	if err != nil {
		return nil, err
	}
	req := c.request(schedule.Update)
	req.DryRun, req.FieldManager = len(options.DryRun) > 0, options.FieldManager
	if req.Object, err = c.decode(info, body, options.FieldValidation); err != nil {
		return nil, err
	}
	return c.execute(req, form)
}

// patch answers a PATCH; pkg/endpoints/handlers/patch.go.
func (c *call) patch() (*answer, error) {
	patchType, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	taken := patchTypes
	if c.kind.Custom() {
		taken = customPatchTypes
	}
	if !slices.Contains(taken, patchType) {
		return nil, unsupportedMediaType(taken)
	}
	if c.target.name == "" {
		return nil, badRequest("name must be provided")
	}
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	var options metav1.PatchOptions
	if err := c.parameters(&options); err != nil {
		return nil, err
	}
	req := c.request(schedule.Patch)
	req.PatchType, req.PatchData = types.PatchType(patchType), body
	if err := invalidOptions("PatchOptions", validation.ValidatePatchOptions(&options, req.PatchType)); err != nil {
		return nil, err
	}
	req.DryRun, req.FieldManager = len(options.DryRun) > 0, options.FieldManager
	req.FieldValidation = fieldValidation(options.FieldValidation)
	req.Force = options.Force
	return c.execute(req, form)
}

// realMetaScheme is what a real server calls the scheme of options in messages: a file of k8s.io/apimachinery v1.36.
const realMetaScheme = "pkg/apis/meta/internalversion/scheme/register.go:27"

// deleteOptions reads the options of a DELETE from its body, or else from its parameters; pkg/endpoints/handlers/delete.go.
func (c *call) deleteOptions() (metav1.DeleteOptions, error) {
	var options metav1.DeleteOptions
	body, err := c.body()
	if err != nil {
		return options, err
	}
	if len(body) == 0 {
		return options, c.parameters(&options)
	}
	info, err := codecs().input(c.r)
	if err != nil {
		return options, err
	}
	info, _ = runtime.SerializerInfoForMediaType(metascheme.Codecs.SupportedMediaTypes(), info.MediaType)
	kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	decoded, _, err := metascheme.Codecs.DecoderToVersion(info.Serializer, kind.GroupVersion()).Decode(body, &kind, &options)
	switch {
	case err != nil:
		return options, badRequest("%s", strings.ReplaceAll(err.Error(), metascheme.Scheme.Name(), realMetaScheme))
	case decoded != runtime.Object(&options):
		return options, badRequest("decoded object cannot be converted to DeleteOptions")
	}
	return options, nil
}

// deletes puts the options of a DELETE into a request.
func (c *call) deletes(req *apiserver.Request) error {
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil // behind a feature gate that is off
	req.Delete = options
	return nil
}

// delete answers a DELETE of one object.
func (c *call) delete() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	req := c.request(schedule.Delete)
	if err := c.deletes(req); err != nil {
		return nil, err
	}
	return c.execute(req, form)
}

// deleteCollection answers a DELETE of a collection.
func (c *call) deleteCollection() (*answer, error) {
	form, err := c.form()
	if err != nil {
		return nil, err
	}
	options, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	req := c.request(schedule.DeleteCollection)
	selects(req, options)
	if err := c.deletes(req); err != nil {
		return nil, err
	}
	return c.execute(req, form)
}
