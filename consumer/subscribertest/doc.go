// Package subscribertest is the conformance suite for [consumer.Subscriber]: it tests the sentences of that interface on a
// real broker. A broker runs it with a harness of its own:
//
//	func TestSubscriber(t *testing.T) {
//		subscribertest.Run(t, subscribertest.Harness{
//			Abilities:  subscribertest.Abilities{Order: true},
//			Topic:      createTopic,
//			Publish:    publish,
//			PublishRaw: publishRaw,
//			Subscriber: func(t testing.TB, group string, topics ...string) consumer.Subscriber { ... },
//		})
//	}
//
// [Memory] is a broker in memory whose subscribers pass the suite: for tests of what is built on a subscriber.
package subscribertest
