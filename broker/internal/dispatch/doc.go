// Package dispatch runs the delivery function of a subscriber: for messages of one key one after the other in the broker's
// order, for others at once, as many as a [Pool] allows. A message that is not acknowledged is delivered again here,
// after a pause, and holds back its key. What a [Queue] reports as settled is always a beginning of what it was given: a
// broker that keeps one position for each partition can store it, and nothing after an open message is ever lost.
package dispatch
