package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long one test may use the browser: machines that test are busy.
const patience = 2 * time.Minute

// findChromium returns the browser to test with, or skips the test.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skip("no Chromium: install Debian's package chromium, or set CHROMIUM to one")
	return ""
}

// tab is an open page with what went wrong in it.
type tab struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	problems []string
	requests []string
}

// view is how a page is looked at.
type view struct {
	width, height int64
	dark          bool
}

func (v view) String() string {
	return fmt.Sprintf("%d-%s", v.width, map[bool]string{false: "light", true: "dark"}[v.dark])
}

// open opens a file in a browser of its own.
func open(t *testing.T, file string, v view) *tab {
	t.Helper()
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(findChromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.WindowSize(int(v.width), int(v.height)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{Context: ctx, t: t}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	scheme := map[bool]string{false: "light", true: "dark"}[v.dark]
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
	b.resize(v.width, v.height)
	b.load(file)
	return b
}

// call sends a command to the page.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// resize gives the window a size; a narrow one is a phone's.
func (b *tab) resize(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
}

// load opens a file and waits until it is painted.
func (b *tab) load(file string) {
	b.t.Helper()
	b.do(chromedp.Navigate("file://"+file), chromedp.WaitReady("html[data-ready]"))
}

// listen notes errors and requests.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
		b.problems = append(b.problems, problem)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			b.problems = append(b.problems, fmt.Sprintf("console %s: %s", e.Type, e.Args[0].Value))
		}
	case *log.EventEntryAdded: // also violations of the Content-Security-Policy
		b.problems = append(b.problems, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// clean checks that nothing went wrong in the page, and that it asked for nothing but itself.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.t.Errorf("the page reports: %s", problem)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "file:///") && !strings.HasPrefix(url, "data:") {
			b.t.Errorf("the page asks for %s", url)
		}
	}
}

// do runs actions, and ends the test if one fails.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns what a script comes to, or what the promise does that it returns.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	value, err := chromedp.Run(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return value
}

// press presses keys, one after the other, and lets the page paint what comes of them.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		if len(key) == 1 && key >= " " {
			b.strike(input.DispatchKeyEventParams{Key: key, Text: key})
		} else {
			b.do(chromedp.KeyEvent(key))
		}
	}
	b.settle()
}

// strike presses a key and lets it go. As with a real one, the page gets its text only if it lets the key through.
func (b *tab) strike(key input.DispatchKeyEventParams) {
	b.t.Helper()
	key.Type = input.DispatchKeyEventTypeKeyDown
	call(b, input.DispatchKeyEvent, key)
	call(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key.Key})
}

// settle waits for two frames.
func (b *tab) settle() {
	b.t.Helper()
	eval[bool](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// shoot leaves a picture of what is in view in the folder that SHOTS names, if it names one.
func (b *tab) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv("SHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	if err := errors.Join(err, os.MkdirAll(folder, 0o755)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// tall makes the window as high as the page, to take a picture of all of it.
func (b *tab) tall(v view) {
	b.t.Helper()
	height := eval[int64](b, `document.documentElement.scrollHeight`)
	b.resize(v.width, height)
	b.settle()
}
