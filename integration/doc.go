// Package integration holds the tests that need several parts of the library and real services at once: every backend
// under the conformance suite, the crash matrix, and the rules that no single package can check of itself.
package integration
