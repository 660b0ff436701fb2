package scenarios

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Faults are what may go wrong in the runs of a scenario. Which faults strike where is the exploration's to choose.
type Faults struct {
	// MaxFaults bounds the faults of one run; 1 by default.
	MaxFaults *int32 `json:"maxFaults,omitempty"`
	// HealAfter is the virtual time since the script began from which on no fault strikes, and what faults hold is let go.
	// Never by default.
	HealAfter *metav1.Duration `json:"healAfter,omitempty"`
	// Rules say which faults may strike where.
	Rules []FaultRule `json:"rules"`
}

// FaultRule says which faults may strike at which events: a union of Type, or of Types, and at most the block of that type.
// Each value that a block lists makes a variant of the fault, and any one of them may strike.
type FaultRule struct {
	// Name of the rule, for reports. A DNS label.
	Name string `json:"name"`
	// Type says what goes wrong.
	Type schedule.FaultType `json:"type,omitempty"`
	// Types is a choice of types that need no block. Not together with Type.
	Types []schedule.FaultType `json:"types,omitempty"`
	// Match chooses the events; all at which the fault can strike if it is left out.
	Match *Selector `json:"match,omitempty"`
	// Max bounds the faults of this rule in one run; by default only spec.faults.maxFaults does.
	Max *int32 `json:"max,omitempty"`

	FaultBlocks `json:",inline"`
}

// FaultBlocks holds the blocks that configure faults, each those of the type that it is named after; the other types have
// nothing to configure. What is left out is as the type has it.
type FaultBlocks struct {
	// Conflict configures a fault of type "Conflict".
	Conflict *ConflictFault `json:"conflict,omitempty"`
	// TooManyRequests configures a fault of type "TooManyRequests".
	TooManyRequests *ErrorFault `json:"tooManyRequests,omitempty"`
	// InternalError configures a fault of type "InternalError".
	InternalError *ErrorFault `json:"internalError,omitempty"`
	// ServerTimeout configures a fault of type "ServerTimeout".
	ServerTimeout *ErrorFault `json:"serverTimeout,omitempty"`
	// ServiceUnavailable configures a fault of type "ServiceUnavailable".
	ServiceUnavailable *ErrorFault `json:"serviceUnavailable,omitempty"`
	// Timeout configures a fault of type "Timeout".
	Timeout *ErrorFault `json:"timeout,omitempty"`
	// LostResponse configures a fault of type "LostResponse".
	LostResponse *LostResponseFault `json:"lostResponse,omitempty"`
	// AppliedTwice configures a fault of type "AppliedTwice".
	AppliedTwice *AppliedTwiceFault `json:"appliedTwice,omitempty"`
	// Delay configures a fault of type "Delay".
	Delay *DelayFault `json:"delay,omitempty"`
	// Wedge configures a fault of type "Wedge".
	Wedge *SpanFault `json:"wedge,omitempty"`
	// CacheLag configures a fault of type "CacheLag".
	CacheLag *CacheLagFault `json:"cacheLag,omitempty"`
	// WatchDrop configures a fault of type "WatchDrop".
	WatchDrop *SpanFault `json:"watchDrop,omitempty"`
	// Relist configures a fault of type "Relist".
	Relist *SpanFault `json:"relist,omitempty"`
	// Crash configures a fault of type "Crash".
	Crash *CrashFault `json:"crash,omitempty"`
	// Upgrade configures a fault of type "Upgrade", which cannot do without.
	Upgrade *UpgradeFault `json:"upgrade,omitempty"`
	// WebhookDenial configures a fault of type "WebhookDenial".
	WebhookDenial *WebhookDenialFault `json:"webhookDenial,omitempty"`
	// WebhookFailure configures a fault of type "WebhookFailure".
	WebhookFailure *WebhookFailureFault `json:"webhookFailure,omitempty"`
	// LateDelete configures a fault of type "LateDelete".
	LateDelete *SpanFault `json:"lateDelete,omitempty"`
}

// ConflictFault configures a Conflict.
type ConflictFault struct {
	// By says how it comes about, or lists several ways: Injected is an error that is made up, CompetingWrite a write by
	// somebody else just before, so that the server itself finds the conflict.
	By OneOrMore `json:"by,omitempty"`
}

// ErrorFault configures an error in place of the server's answer, of those that client-go may try again by itself.
type ErrorFault struct {
	// Layer says where it arises, or lists both: Transport is below client-go, which tries some errors again by itself, and
	// Client is above it.
	Layer OneOrMore `json:"layer,omitempty"`
	// RetryAfter is the header Retry-After, in whole seconds; "0s" leaves it out where the type has one.
	RetryAfter *metav1.Duration `json:"retryAfter,omitempty"`
}

// LostResponseFault configures a LostResponse.
type LostResponseFault struct {
	// As says what the client sees, or lists both: ConnectionLost is a connection that breaks, RequestTimeout a 504.
	As OneOrMore `json:"as,omitempty"`
}

// WebhookDenialFault configures a WebhookDenial.
type WebhookDenialFault struct {
	// Webhook is the name of the admission webhook. Left out, it is the first that is called about a write. One that the scenario
	// configures strikes where it is called; any other name stands for one more, which is asked about every write.
	Webhook string `json:"webhook,omitempty"`
}

// WebhookFailureFault configures a WebhookFailure.
type WebhookFailureFault struct {
	// Webhook is the name of the admission webhook, as for a WebhookDenial.
	Webhook string `json:"webhook,omitempty"`
	// As says why there is no answer, or lists both: ConnectionRefused at once, DeadlineExceeded after the webhook's
	// timeoutSeconds.
	As OneOrMore `json:"as,omitempty"`
}

// AppliedTwiceFault configures an AppliedTwice.
type AppliedTwiceFault struct {
	// RetryAfter is the header Retry-After, in whole seconds, after which client-go tries again.
	RetryAfter *metav1.Duration `json:"retryAfter,omitempty"`
}

// DelayFault configures a Delay.
type DelayFault struct {
	// For is how late it is, in virtual time.
	For *metav1.Duration `json:"for,omitempty"`
	// At says what is late, or lists both: BeforeCall the request, AfterCommit the response.
	At OneOrMore `json:"at,omitempty"`
}

// SpanFault configures a fault that has nothing but a length.
type SpanFault struct {
	// For is how long it lasts, in virtual time.
	For *metav1.Duration `json:"for,omitempty"`
}

// CacheLagFault configures a CacheLag.
type CacheLagFault struct {
	// Max is how late the informer is at the most, in virtual time.
	Max *metav1.Duration `json:"max,omitempty"`
}

// CrashFault configures a Crash.
type CrashFault struct {
	// At says when the process dies, or lists both: BeforeCall before the server has seen the request, AfterCommit after it
	// was carried out.
	At OneOrMore `json:"at,omitempty"`
	// RestartAfter is the virtual time that the process is down.
	RestartAfter *metav1.Duration `json:"restartAfter,omitempty"`
}

// UpgradeFault configures an Upgrade.
type UpgradeFault struct {
	// Reconciler is the name of the registered reconciler that starts in place of the one that dies.
	Reconciler string `json:"reconciler"`
	// At says when the process dies, or lists both: BeforeCall before the server has seen the request, AfterCommit after it
	// was carried out.
	At OneOrMore `json:"at,omitempty"`
	// RestartAfter is the virtual time that the process is down.
	RestartAfter *metav1.Duration `json:"restartAfter,omitempty"`
}

// OneOrMore is a string, or a list of strings.
type OneOrMore []string
