package apiserver

// An alias shows the objects of another kind in a group and version of its own: events.k8s.io/v1 Events are core/v1 Events,
// autoscaling/v1 HorizontalPodAutoscalers are those of autoscaling/v2. There is one store, so that names, UIDs, revisions and
// conflicts are the same through either, and one event log, so that watches of both see the same commits.

// behind returns the kind that has the objects: the kind itself, unless it is an alias.
func (k *Kind) behind() *Kind {
	if k.Alias != nil {
		return k.Alias.Of
	}
	return k
}

// shown returns a stored object in the form of the kind.
func (k *Kind) shown(obj Object) Object {
	if k.Alias == nil || obj == nil {
		return obj
	}
	converted, err := k.Alias.From(obj)
	if err != nil {
		// Conversions of what is stored do not fail: the only errors are of annotations that the server wrote itself.
		panic("apiserver: " + k.String() + ": " + err.Error())
	}
	return converted
}

// view returns the kind in whose form the client sees its objects.
func (r *Request) view() *Kind {
	if r.alias != nil {
		return r.alias
	}
	return r.Kind
}

// inVersion returns the kind by whose rules a write is prepared and checked, and a stored object in its form. It is the version of
// a custom resource that was asked for: a real server converts to the version that is stored last of all. Built-ins of several
// versions are checked in one form.
func (r *Request) inVersion(stored Object) (*Kind, Object) {
	if r.alias != nil && r.alias.Custom() {
		return r.alias, r.alias.shown(stored)
	}
	return r.Kind, stored
}

// rules returns the kind whose validation applies: an alias may be stricter than the kind behind it.
func (r *Request) rules() *Kind {
	if r.alias != nil && r.alias.Validate != nil {
		return r.alias
	}
	return r.Kind
}

// shown returns a stored object in the form the client sees.
func (r *Request) shown(obj Object) Object {
	if r.alias == nil {
		return obj
	}
	return r.alias.shown(obj)
}

// home converts an object in the form of inVersion to the form that is stored.
func (r *Request) home(obj Object) Object {
	if r.alias == nil || !r.alias.Custom() {
		return obj
	}
	converted, err := r.alias.Alias.To(obj)
	if err != nil {
		panic("apiserver: " + r.alias.String() + ": " + err.Error()) // custom resources are of one form in all versions
	}
	return converted
}

// stored converts an object in the form the client sees to that of inVersion.
func (r *Request) stored(obj Object) (Object, *statusError) {
	if r.alias == nil || r.alias.Custom() {
		return obj, nil
	}
	converted, err := r.alias.Alias.To(obj)
	if err != nil {
		return nil, badRequest("%s in version %q cannot be handled as a %s: %v", r.alias.Kind, r.alias.Version, r.alias.Kind, err)
	}
	return converted, nil
}

// doAlias executes a request for an alias: as one for the kind behind it, with the answer converted.
func (s *Server) doAlias(req *Request) *Response {
	behind := *req
	behind.Kind, behind.alias = req.Kind.Alias.Of, req.Kind
	s.noteUse(req.Kind)
	response := s.Do(&behind)
	response.Before = req.Kind.shown(response.Before)
	if req.Subresource != "scale" {
		response.Object = req.Kind.shown(response.Object)
	}
	for i, obj := range response.Items {
		response.Items[i] = req.Kind.shown(obj)
	}
	return response
}

// aliasLog returns the event log of the kind behind an alias in its form. What was converted once is kept in the table of the
// alias, which has no objects of its own.
func (s *Server) aliasLog(k *Kind) []Event {
	source, t := s.table(k.Alias.Of).log, s.table(k)
	for _, event := range source[len(t.log):] {
		event.Object, event.Prev = k.shown(event.Object), k.shown(event.Prev)
		t.log = append(t.log, event)
	}
	return t.log
}
