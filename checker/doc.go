// Package checker answers a broker's question for the outcome of a local transaction from the service's own database. It knows no broker.
package checker
