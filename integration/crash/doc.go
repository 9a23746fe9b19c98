// Package crash kills a process at each step of the protocols and has another one take over.
//
// A child process, the test binary run again, writes with a real messenger and relays. Decorators around the library's seams count
// how often each step is passed; at the one that the round is about, the child tells how many messages are in flight and
// kills itself. Then a process that sends nothing itself runs until everything is delivered, and the parent judges
// by the business table and by what it reads from the broker itself: what was delivered is what was committed, under
// one ID and whole, in the order of each key where the backend keeps one.
//
//	TXMSG_CRASH_ROUNDS=20 go test -v ./integration/crash
package crash
