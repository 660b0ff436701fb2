// Package history records what happened in a run, and what an exploration came to. It is all that reports read.
package history
