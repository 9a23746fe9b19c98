// Package demo runs an order service and a payment service in one process. Each has a database of its own, and they talk
// only by messages. Configuration picks the backend, the broker and the database; no line of the services knows which.
package demo
