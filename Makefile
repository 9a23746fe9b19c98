SERVICES = go run ./integration/services/cmd/services

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

build: ## compile everything
	go build ./...

lint: ## gofumpt, vet, staticcheck
	@test -z "$$(go tool gofumpt -l . | tee /dev/stderr)"
	go vet ./...
	go tool staticcheck ./...

test: ## install and start every service, then run all tests with the race detector; nothing may be skipped
	./integration/test.sh

test-unit: ## tests that need nothing but Go
	go test -short -count=1 ./...

demo: ## order and payment service with SQLite and an embedded NATS, page on http://127.0.0.1:8080
	go run ./demo/cmd/demo

demo-check: ## place orders in the demo and compare three sources; BACKEND=rocketmq or localtable/kafka, SABOTAGE=drop or invent
	./demo/check.sh "$(BACKEND)" "$(SABOTAGE)"

crash: ## kill the process at every named point of the protocols, 20 rounds a point
	./integration/crash.sh 20

fleet: ## kill and freeze five relays at random, restart their broker, and compare what was written with what came; SEED=7 repeats a run
	./integration/fleet.sh "$(SEED)"

services: ## start PostgreSQL, Kafka, NATS and RocketMQ and print the environment to export
	@$(SERVICES) up

services-down: ## stop exactly what "make services" started
	@$(SERVICES) down

verify: ## check the models of the protocols with spin
	./docs/protocol/verify.sh

bench: ## measure against the hand-written limit and the peers in the same run
	./bench/run.sh

bench-quick: ## the same against the limit alone, in under three minutes
	./bench/run.sh quick

growth: ## show that polls and drains cost the same however much the tables hold; 10 GB of disk, an hour; ARGS="-archive 100000 -passes 2"
	./bench/growth.sh $(ARGS)

.PHONY: help build lint test test-unit demo demo-check crash fleet services services-down verify bench bench-quick growth
