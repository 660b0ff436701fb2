package handler_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// TestStatusOfWebhook has webhooks that refuse with a code that is none: what HTTP cannot carry is an error of the server, in
// process as over a connection.
func TestStatusOfWebhook(t *testing.T) {
	for sent, want := range map[int32]int{-1: 400, 204: 400, 418: 418, 600: 600, 1000: 500, 99999: 500} {
		server := apiserver.NewServer(kinds(), time.Now)
		err := server.AddHooks(apiserver.Hook{
			MutatingWebhook: registrationv1.MutatingWebhook{Name: "a.example.com"},
			Handle: func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
				return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: sent}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := handler.New(handler.NewLocal(server))
		remote := httptest.NewServer(h)
		for host, transport := range map[string]http.RoundTripper{"http://in-process": h, remote.URL: remote.Client().Transport} {
			body := strings.NewReader(`{"metadata":{"name":"a"}}`)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, host+mapsPath, body)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatalf("%d: %v", sent, err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s: a webhook's code %d is answered as %d, want %d", host, sent, response.StatusCode, want)
			}
		}
		remote.Close()
	}
}

// TestHostileConnections sends what no client sends over a connection: bodies that end too soon, headers that are too long, and
// watches that nobody reads. The server answers, writes go on, and it can be closed.
func TestHostileConnections(t *testing.T) {
	remote := httptest.NewServer(handler.New(newLocal(t)))
	defer remote.Close()
	dial := func(text string) net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", remote.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, text) }() // it may not be read to its end
		return conn
	}
	const post = "POST " + mapsPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	const whole = `{"metadata":{"name":"whole"}}`
	tests := []struct {
		name, text string
		half       bool // the client says no more, but still listens
		want       int
	}{
		{"whole", post + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(whole)) + whole, false, http.StatusCreated},
		{"half a body", post + "Content-Length: 1000\r\n\r\n" + whole[:9], true, http.StatusInternalServerError},
		{"half a chunk", post + "Transfer-Encoding: chunked\r\n\r\n10\r\nabc", true, http.StatusInternalServerError},
		{"no chunk", post + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n", false, http.StatusInternalServerError},
		{"an endless header", "GET " + mapsPath + " HTTP/1.1\r\nHost: x\r\nAccept: " + strings.Repeat("a/b,", 1<<20) + "\r\n\r\n", false,
			http.StatusRequestHeaderFieldsTooLarge},
		{"a long header", "GET " + mapsPath + " HTTP/1.1\r\nHost: x\r\nAccept: " + strings.Repeat("a/b,", 1<<15) + "\r\n\r\n", false,
			http.StatusNotAcceptable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conn := dial(test.text)
			defer func() { _ = conn.Close() }()
			if test.half {
				time.Sleep(10 * time.Millisecond) // until it is written
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("answered with %d, want %d", response.StatusCode, test.want)
			}
		})
	}
	var watches []net.Conn
	for range 10 {
		watches = append(watches, dial("GET "+mapsPath+"?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n"))
	}
	long := strings.Repeat("x", 1<<18)
	for i := range 20 {
		body := strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"m-%d"},"data":{"k":%q}}`, i, long))
		response, err := remote.Client().Post(remote.URL+mapsPath, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusCreated {
			t.Fatalf("write %d is answered with %d", i, response.StatusCode)
		}
	}
	for _, conn := range watches {
		_ = conn.Close()
	}
}
