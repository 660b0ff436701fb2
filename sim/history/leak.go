package history

// LeakedGoroutine begins what [History.Unfinished] says of a goroutine of the program that was still there when the run had ended, and
// will be until the process ends. What it waits for, and where, follows.
const LeakedGoroutine = "a goroutine that has not ended: "
