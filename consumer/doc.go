// Package consumer makes at-least-once delivery harmless: a message's inbox row, its handler's changes and what the handler publishes are one transaction.
package consumer
