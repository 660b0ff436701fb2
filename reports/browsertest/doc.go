// Package browsertest opens HTML reports in Chromium and uses them as a reader does: it looks at lanes, arrows and diffs, filters,
// walks by keyboard, and copies the reproduce line, in wide and narrow windows, light and dark. It is a module of its own, so
// that nobody who uses Stalemate gets a browser's driver among their dependencies.
//
// The tests need Chromium, /usr/bin/chromium of Debian's package or what CHROMIUM names, and skip without one. With SHOTS set to a
// folder they leave pictures there, to be looked at.
package browsertest
