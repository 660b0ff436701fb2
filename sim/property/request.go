package property

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// requestFields and responseFields declare what rules with a match see besides the variables.
type (
	requestFields struct {
		Actor       string `json:"actor"`
		Verb        string `json:"verb"`
		Kind        string `json:"kind"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
		DryRun      bool   `json:"dryRun"`
	}
	responseFields struct {
		Code    int    `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
)

// ofRequest returns the shape of requests for a kind: the body of a create or update has the kind's type. Without a
// kind it is dyn.
func (s *shapes) ofRequest(kind string, body *shape) *shape {
	name := requestName
	if kind != "" {
		name += "." + kind
	}
	request := s.object(name)
	s.addFields(request, reflect.TypeFor[requestFields](), nil)
	request.add(&field{name: "object", shape: body})
	return request
}

var (
	requestShapes = newShapes()
	anyRequest    = requestShapes.ofRequest("", dynShape)
	anyResponse   = requestShapes.ofGo(reflect.TypeFor[responseFields]())
)

// requestValue returns a request as the rule sees it. The names are those of the request, where it has them, as rules
// compare them with names in objects; those of the event may be roles.
func (r *rule) requestValue(event schedule.Event, req *apiserver.Request) ref.Val {
	namespace, name := req.Namespace, req.Name
	object := ref.Val(types.NullValue)
	if req.Object != nil {
		if name == "" {
			name = req.Object.GetName()
		}
		if namespace == "" {
			namespace = req.Object.GetNamespace()
		}
		object = r.body.ofStored(req.Object, r.bodyType)
	}
	if name == "" {
		name = event.Name
	}
	dryRun := req.DryRun || len(req.Delete.DryRun) > 0
	return anyRequest.ofJSON(map[string]any{
		"actor": event.Actor, "verb": string(event.Verb), "kind": event.Kind, "namespace": namespace, "name": name,
		"subresource": req.Subresource, "dryRun": dryRun, "object": object,
	})
}

// responseValue returns a response as rules see it.
func responseValue(resp *apiserver.Response) ref.Val {
	response := map[string]any{"code": int64(resp.Code), "reason": "", "message": ""}
	if resp.Err != nil {
		response["reason"] = string(resp.Err.ErrStatus.Reason)
		response["message"] = resp.Err.ErrStatus.Message
	}
	return anyResponse.ofJSON(response)
}
