// Package tidy has only tests: they keep the repository's rules, those that no linter knows. Which package may import which,
// what must not come near the engine, and what the documentation promises.
package tidy
