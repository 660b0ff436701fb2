package handler

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// representation is how a client wants to be answered.
type representation struct {
	runtime.SerializerInfo
	as     *schema.GroupVersionKind // the form it wants objects in: their metadata; nil for the whole object
	pretty bool
}

// encoder returns what writes single objects.
func (r representation) encoder() runtime.Encoder {
	if r.pretty && r.PrettySerializer != nil {
		return r.PrettySerializer
	}
	return r.Serializer
}

// clause is one of the alternatives of an Accept header.
type clause struct {
	kind, subtype string
	quality       float64
	params        map[string]string
}

// accepted returns the clauses of an Accept header, the most wanted first; what cannot be read is passed over.
// This is what github.com/munnerz/goautoneg does, which a real server uses.
func accepted(header string) []clause {
	var clauses []clause
	for part := range strings.SplitSeq(header, ",") {
		pieces := strings.Split(part, ";")
		kind, subtype, found := strings.Cut(strings.Trim(pieces[0], " "), "/")
		kind, subtype = strings.Trim(kind, " "), strings.Trim(subtype, " ")
		if !found && kind == "*" {
			subtype = "*"
		}
		if subtype == "" || strings.Contains(subtype, "/") {
			continue
		}
		c := clause{kind: kind, subtype: subtype, quality: 1, params: map[string]string{}}
		for _, piece := range pieces[1:] {
			name, value, found := strings.Cut(piece, "=")
			switch name = strings.Trim(name, " "); {
			case !found || value == "" || strings.Contains(value, "="):
			case name == "q":
				c.quality, _ = strconv.ParseFloat(value, 32) // what is no number is not wanted at all
			default:
				c.params[name] = strings.Trim(value, " ")
			}
		}
		clauses = append(clauses, c)
	}
	slices.SortStableFunc(clauses, func(a, b clause) int {
		return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(a.stars(), b.stars()))
	})
	return clauses
}

// stars counts how little the clause says.
func (c clause) stars() int { return strings.Count(c.kind+c.subtype, "*") }

// matches reports whether the clause asks for a media type.
func (c clause) matches(info runtime.SerializerInfo) bool {
	return c.kind == info.MediaTypeType && (c.subtype == info.MediaTypeSubType || c.subtype == "*") ||
		c.kind == "*" && c.subtype == "*"
}

// convert returns the kind that the clause wants the answer converted to, nil for none.
func (c clause) convert() *schema.GroupVersionKind {
	if c.params["as"]+c.params["g"]+c.params["v"] == "" {
		return nil
	}
	return &schema.GroupVersionKind{Group: c.params["g"], Version: c.params["v"], Kind: c.params["as"]}
}

// offer is what can be asked of a place.
type offer struct {
	metadata bool // objects may be reduced to their metadata
	custom   bool // whole objects cannot be written as protobuf
}

// allows reports whether the place has that form in that media type; RequestScope.AllowsMediaTypeTransform of
// pkg/endpoints/handlers/rest.go. Tables are not offered: clients that ask for them always take the object too.
func (o offer) allows(info runtime.SerializerInfo, as *schema.GroupVersionKind) bool {
	if as == nil {
		return !o.custom || info.MediaType != runtime.ContentTypeProtobuf
	}
	known := as.Group == metav1.GroupName && (as.Version == "v1" || as.Version == "v1beta1")
	return o.metadata && known && (as.Kind == "PartialObjectMetadata" || as.Kind == "PartialObjectMetadataList")
}

// negotiate finds the representation that the client wants most; pkg/endpoints/handlers/negotiation/negotiate.go.
func (w wire) negotiate(r *http.Request, o offer) (representation, bool) {
	header := r.Header.Get("Accept")
	pretty := wantsPretty(r)
	if header == "" {
		return representation{SerializerInfo: w.media[0], pretty: pretty}, true
	}
	for _, c := range accepted(header) {
		for _, info := range w.media {
			stream := c.params["stream"]
			if !c.matches(info) || stream != "" && (stream != "watch" || info.StreamSerializer == nil) || c.params["sv"] != "" {
				continue
			}
			if as := c.convert(); o.allows(info, as) {
				return representation{info, as, pretty || c.params["pretty"] == "1"}, true
			}
		}
	}
	return representation{}, false
}

// wantsPretty reports whether the answer is for human eyes.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if text := r.URL.Query().Get("pretty"); text != "" {
			pretty, _ := strconv.ParseBool(text)
			return pretty
		}
	}
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(tool string) bool {
		return strings.HasPrefix(r.UserAgent(), tool)
	})
}

// names returns the media types, as messages list them.
func (w wire) names(streams bool) []string {
	var names []string
	for _, info := range w.media {
		if !streams {
			names = append(names, info.MediaType)
		} else if info.StreamSerializer != nil {
			names = append(names, info.MediaType+";stream=watch")
		}
	}
	return names
}

// input finds the reader of a request's body.
func (w wire) input(r *http.Request) (runtime.SerializerInfo, error) {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return w.media[0], nil
	}
	if name, _, err := mime.ParseMediaType(text); err == nil {
		if info, ok := runtime.SerializerInfoForMediaType(w.media, name); ok {
			return info, nil
		}
	}
	return runtime.SerializerInfo{}, unsupportedMediaType(w.names(false))
}
