package tidy

// inBubble is why the engine may use what it bans: within a bubble these functions know only virtual time.
const inBubble = "it runs inside the bubble, where this is virtual time"

// outsideRuns is why what plays recordings may use it: no run does.
const outsideRuns = "it asks servers in tests, real ones among them"

// wallClockExceptions are uses of the clock and of randomness near the engine, as "file package.name", with the reasons.
var wallClockExceptions = map[string]string{
	"sim/bubble.go time.NewTicker": "the watchdog measures real time, outside the bubble",
	"sim/bubble.go time.Until":     inBubble + ": it goes to the epoch",
	"sim/bubble.go time.Sleep":     inBubble + ": it goes to the epoch",
	"sim/engine.go time.NewTimer":  inBubble,
	"sim/engine.go time.Since":     inBubble,
	"sim/engine.go time.Sleep":     inBubble,
	"sim/world.go time.Until":      inBubble,
	"sim/world.go time.Now":        inBubble,
	"sim/world.go time.Sleep":      inBubble,
	"sim/rand.go math/rand.Seed":   "it puts the generator that client-go draws from into a fixed state",

	"sim/internal/recorded/play.go time.Sleep":     outsideRuns,
	"sim/internal/recorded/play.go time.Now":       outsideRuns,
	"sim/internal/recorded/play.go time.AfterFunc": outsideRuns,

	"sim/apiserver/managed.go time.Now": "the upstream library stamps managedFields with it; the stamps are put into virtual time",
}

// concurrencyExceptions are the goroutines and select statements near the engine, as "file function statement", with the
// reasons why the Go scheduler decides nothing there.
var concurrencyExceptions = map[string]string{
	"sim/bubble.go bubble go":          "a bubble has a goroutine of its own, so that one which is stuck can be abandoned",
	"sim/bubble.go watch select":       "the watchdog is outside the bubble and can only end a run, never change it",
	"sim/engine.go advance select":     "calls that arrive and the deadline never share an instant: every grant adds a unique nanosecond",
	"sim/process.go park select":       "a call whose context has ended parks once more, and a grant says when it goes on",
	"sim/process.go spawn go":          "a program has goroutines; the engine grants one step and waits until all are parked",
	"sim/client/cache.go await select": "what is ready already wins; what becomes ready and a context that ends do not arise in one grant",

	"sim/apiserver/handler/backend.go pause select": "whichever wakes it, its callers look for an event first and then at the context",
}
