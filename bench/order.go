package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// The business transaction of every contender inserts one order. Its message is about 300 bytes of JSON that every contender
// carries as it is, keyed by the order's number.
const (
	createOrdersSQL = `CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint NOT NULL, amount_cents bigint NOT NULL,
    status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`
	insertOrderSQL = `INSERT INTO orders (id, customer_id, amount_cents, status) VALUES ($1, $2, $3, $4)`

	// The same message made by the server, to fill tables before a drain.
	createBodySQL = `CREATE FUNCTION body(i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $f$
SELECT format('{"order_id":"%s","type":"order.created","customer_id":%s,"amount_cents":%s,` + bodyRest + `"}',
    lpad(i::text, 12, '0'), i % 1000, i % 100000) $f$`
	bodyRest = `"currency":"EUR","status":"new","items":[{"sku":"ABC-0001","qty":2,"price":1999},{"sku":"XYZ-0042","qty":1,"price":4999}],` +
		`"address":"221B Baker Street, London NW1 6XE","note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`
	keySQL = `lpad(i::text, 12, '0')`

	eventType = "order.created"
)

func orderArgs(id int64) []any { return []any{id, id % 1000, id % 100000, "new"} }

func key(id int64) string { return fmt.Sprintf("%012d", id) }

func body(id int64) []byte {
	return fmt.Appendf(nil, `{"order_id":"%012d","type":"order.created","customer_id":%d,"amount_cents":%d,`+bodyRest+`"}`, id, id%1000, id%100000)
}

// orderOf reads the order's number from a message, -1 if there is none. A contender may have rewritten the JSON.
func orderOf(body []byte) int64 {
	_, rest, found := bytes.Cut(body, []byte(`"order_id"`))
	rest = bytes.TrimLeft(rest, `: "`)
	if !found || len(rest) < 12 {
		return -1
	}
	id, err := strconv.ParseInt(strings.TrimLeft(string(rest[:12]), "0"), 10, 64)
	if err != nil {
		return -1
	}
	return id
}
