// Package localtable keeps messages in a table of the service's own database, written in the caller's transaction, and relays them to a broker.
package localtable
