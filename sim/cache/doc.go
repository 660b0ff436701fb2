// Package cache holds informers' views of the API server: what one informer has been told so far.
//
// A [View] is a cursor into the event log of one kind, with the state of that kind as of the cursor. Every informer of
// every actor has a view of its own, and only the engine moves it, one event at a time: that one actor sees an old
// state while another sees the new one is a choice of the schedule. Views hold the server's immutable objects; nothing
// is copied until somebody asks for a copy to change.
//
// A watch that the server cannot continue loses events: [View.Relist] then moves the view to the present state at once, and
// tells of the difference what client-go's informers tell.
//
// Not modelled: resyncs, transforms.
package cache
