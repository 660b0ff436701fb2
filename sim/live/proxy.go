package live

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// proxy is the gate in front of the real server, as kube-controller-manager has it: it takes the proxy for the API server.
type proxy struct {
	url    string
	server *http.Server
	opened chan struct{}
	once   sync.Once

	mu      sync.Mutex
	latest  time.Time         // when something was last asked for
	cluster *cluster          // nil until the server is there
	actors  map[string]string // the names of racers by those of the controllers that play them
}

// health are the paths by which a program finds out whether there is a server at all.
var health = []string{"/healthz", "/livez", "/readyz", "/version"}

// userAgents are how kube-controller-manager's controllers call themselves in requests (cmd/kube-controller-manager/app, v1.36).
var userAgents = map[string]string{
	"garbage-collector-controller": "generic-garbage-collector",
}

// newProxy listens on a free port of this machine.
func newProxy(actors map[string]string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{url: "http://" + listener.Addr().String(), opened: make(chan struct{}), actors: map[string]string{}}
	for controller, actor := range actors {
		p.actors[controller] = actor
		if agent := userAgents[controller]; agent != "" {
			p.actors[agent] = actor
		}
	}
	p.server = &http.Server{Handler: p}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// serve says which cluster the proxy stands in front of.
func (p *proxy) serve(c *cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cluster = c
}

// open lets requests through, which wait until then, and returns when kube-controller-manager has its caches, as far as that shows:
// it has asked for something, and now asks for nothing more.
func (p *proxy) open(ctx context.Context) {
	p.once.Do(func() { close(p.opened) })
	for range 100 {
		sleep(ctx, 100*time.Millisecond)
		p.mu.Lock()
		calm := !p.latest.IsZero() && time.Since(p.latest) > 500*time.Millisecond
		p.mu.Unlock()
		if calm || ctx.Err() != nil {
			return
		}
	}
}

func (p *proxy) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = time.Now()
}

func (p *proxy) close() error { return p.server.Close() }

// ServeHTTP implements [http.Handler].
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c := p.ready()
	if c == nil {
		http.Error(w, "there is no API server yet", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := read(c.kinds, r, body)
	if !slices.Contains(health, r.URL.Path) { // what it learns of the server before the server is ready it keeps for long
		p.touch()
		select {
		case <-p.opened:
		case <-ctx.Done():
			return
		}
	}
	send := func(ctx context.Context) (*http.Response, error) {
		out, err := http.NewRequestWithContext(ctx, r.Method, c.server.host+r.URL.RequestURI(), strings.NewReader(string(body)))
		if err != nil {
			return nil, err
		}
		out.Header = r.Header.Clone()
		out.Header.Del("Accept-Encoding")
		out.Header.Set("Accept", withoutProtobuf(out.Header.Get("Accept")))
		return c.server.client.Transport.RoundTrip(out)
	}
	actor := p.actor(r)
	if passesBy(call) || call.watch || actor == "" {
		response, err := send(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		forward(w, response)
		return
	}
	pass := &passage{call: call, visit: visit{event: eventOf(call.Request), key: threadKey{actor: actor, key: call.Key().String()}}}
	pass.event.Actor = actor
	pass.send = func(ctx context.Context) (*answer, error) {
		response, err := send(ctx)
		if err != nil {
			return nil, err
		}
		return readAnswer(response)
	}
	answer, err := c.pass(ctx, pass)
	if err != nil { // the connection breaks
		panic(http.ErrAbortHandler)
	}
	forward(w, answer.response(r))
}

// ready returns the cluster, nil if there is none yet.
func (p *proxy) ready() *cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cluster
}

// actor returns the racer that a request is of, by what its sender calls itself; empty for what all controllers share.
func (p *proxy) actor(r *http.Request) string {
	agent := r.UserAgent()
	return p.actors[agent[strings.LastIndexByte(agent, '/')+1:]]
}

// withoutProtobuf leaves out of what a client accepts what the gate cannot read; they all accept JSON as well.
func withoutProtobuf(accept string) string {
	accepted := slices.DeleteFunc(strings.Split(accept, ","), func(one string) bool { return strings.Contains(one, "protobuf") })
	if len(accepted) == 0 {
		return "application/json"
	}
	return strings.Join(accepted, ",")
}

// forward sends an answer on as it comes.
func forward(w http.ResponseWriter, response *http.Response) {
	defer func() { _ = response.Body.Close() }()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	flusher, _ := w.(http.Flusher)
	buffer := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			flusher.Flush()
		}
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}
