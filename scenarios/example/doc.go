// Package example has the operators of the tutorial, docs/tutorial.md: five small ones, each wrong in one way that operators often
// are, and mended.
//
// All of them publish Pages: a Page has a text, and its operator keeps a ConfigMap of the same name with that text.
//
//	scenario       operator           what is wrong
//	1-hello.yaml   hello              nothing
//	2-race.yaml    race-buggy         goes on as if nothing had happened when its write fails
//	3-faults.yaml  faults-buggy       makes again what it has made, when it never heard the answer
//	4-lag.yaml     lag-buggy          believes its cache that something is not there
//	5-crash.yaml   crash-buggy        says that it is done before it is
//
// The mended ones are called race-fixed, and so on.
package example
