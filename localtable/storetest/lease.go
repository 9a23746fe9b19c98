package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func leaseTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"the first owner gets every lane", leaseFirst[Tx]},
		{"a renewal keeps lanes and epochs", leaseRenewal[Tx]},
		{"no two owners hold a lane at once", leaseExclusive[Tx]},
		{"C21 expired lanes are taken over in new, larger epochs", leaseTakeover[Tx]},
		{"live owners get fair shares, whoever joins", leaseShares[Tx]},
		{"an owner that is gone frees its share", leaseGone[Tx]},
	}
}

func releaseTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"released lanes can be taken at once", releaseSome[Tx]},
		{"without lanes it gives up all and reports the owner gone", releaseAll[Tx]},
		{"lanes that the owner lost stay with the new owner", releaseLost[Tx]},
		{"of an owner that is not known is no error", releaseUnknown[Tx]},
	}
}

// epochs maps the numbers of lanes to their epochs and requires that no lane is there twice.
func epochs(t *testing.T, lists ...[]localtable.Lane) map[int]int64 {
	t.Helper()
	byNumber := map[int]int64{}
	for _, lanes := range lists {
		for _, lane := range lanes {
			require.NotContains(t, byNumber, lane.Number, "lane is held twice")
			byNumber[lane.Number] = lane.Epoch
		}
	}
	return byNumber
}

func leaseFirst[Tx any](t *testing.T, b *bench[Tx]) {
	lease := b.lease(owner)
	held := epochs(t, lease.Lanes)
	require.Len(t, held, b.Lanes)
	for number := range b.Lanes {
		require.Contains(t, held, number)
	}
	require.Zero(t, lease.Surplus)
	require.Zero(t, lease.Expired)
	b.write(keyed("k", "a")...)
	created := b.read(lease.Lanes, most)[0].Created
	require.WithinDuration(t, created, lease.Now, time.Minute, "a row's time and the lease's are the same clock's")
	require.False(t, b.lease(owner).Now.Before(created))
}

func leaseRenewal[Tx any](t *testing.T, b *bench[Tx]) {
	before := epochs(t, b.all())
	require.Equal(t, before, epochs(t, b.all()))
	b.Expire(t, owner)
	require.Zero(t, b.lease(owner).Expired, "its own lanes, which nobody wanted")
}

func leaseExclusive[Tx any](t *testing.T, b *bench[Tx]) {
	first := b.lease(owner).Lanes
	second := b.lease(other)
	require.Empty(t, second.Lanes, "nothing is free")
	require.Zero(t, second.Surplus)
	require.Len(t, epochs(t, first, second.Lanes), b.Lanes)
}

func leaseTakeover[Tx any](t *testing.T, b *bench[Tx]) {
	before := epochs(t, b.all())
	b.Expire(t, owner)
	lease := b.lease(other)
	require.Equal(t, b.Lanes, lease.Expired, "lanes whose owner's time was over")
	require.Zero(t, b.lease(other).Expired, "each is told once")
	after := epochs(t, lease.Lanes)
	require.Len(t, after, b.Lanes)
	for number, epoch := range after {
		require.Greater(t, epoch, before[number], "lane %d", number)
	}
	require.Zero(t, lease.Surplus)
	require.Empty(t, b.lease(owner).Lanes, "what was lost does not come back")
}

// balance lets every owner lease and release its surplus for some rounds, requires that nothing moves any more and that
// every lane is held, and returns what each holds.
func balance[Tx any](t *testing.T, b *bench[Tx], owners []string) map[string][]localtable.Lane {
	t.Helper()
	for range 5 {
		for _, who := range owners {
			if lease := b.lease(who); lease.Surplus > 0 {
				require.LessOrEqual(t, lease.Surplus, len(lease.Lanes))
				require.NoError(t, b.Store.Release(b.ctx, who, lease.Lanes[:lease.Surplus]...))
			}
		}
	}
	held := map[string][]localtable.Lane{}
	var all [][]localtable.Lane
	for _, who := range owners {
		lease := b.lease(who)
		require.Zero(t, lease.Surplus, "lanes still move after five rounds")
		held[who] = lease.Lanes
		all = append(all, lease.Lanes)
	}
	require.Len(t, epochs(t, all...), b.Lanes, "a lane is held by nobody")
	return held
}

func leaseShares[Tx any](t *testing.T, b *bench[Tx]) {
	var owners []string
	for live := 1; live <= 6; live++ {
		owners = append(owners, fmt.Sprintf("owner%d", live))
		for who, lanes := range balance(t, b, owners) {
			require.GreaterOrEqual(t, len(lanes), b.Lanes/live, "%s of %d", who, live)
			require.LessOrEqual(t, len(lanes), (b.Lanes+live-1)/live, "%s of %d", who, live)
		}
	}
}

func leaseGone[Tx any](t *testing.T, b *bench[Tx]) {
	balance(t, b, []string{owner, other, "third"})
	b.Expire(t, other)
	require.NoError(t, b.Store.Release(b.ctx, "third"))
	require.Len(t, balance(t, b, []string{owner})[owner], b.Lanes)
}

func releaseSome[Tx any](t *testing.T, b *bench[Tx]) {
	first := b.all()
	require.NoError(t, b.Store.Release(b.ctx, owner, first[0]))
	second := b.lease(other).Lanes
	require.Equal(t, first[0].Number, second[0].Number)
	require.Greater(t, second[0].Epoch, first[0].Epoch)
	require.Len(t, epochs(t, b.lease(owner).Lanes, second), b.Lanes)
}

func releaseAll[Tx any](t *testing.T, b *bench[Tx]) {
	before := epochs(t, b.all())
	require.NoError(t, b.Store.Release(b.ctx, owner))
	lease := b.lease(other)
	after := epochs(t, lease.Lanes)
	require.Len(t, after, b.Lanes, "an owner that is gone keeps no share")
	require.Zero(t, lease.Expired, "what was released has not expired")
	for number, epoch := range after {
		require.Greater(t, epoch, before[number])
	}
	require.Zero(t, b.lease(other).Surplus)
}

func releaseLost[Tx any](t *testing.T, b *bench[Tx]) {
	lost := b.all()
	b.Expire(t, owner)
	taken := b.lease(other).Lanes
	require.NoError(t, b.Store.Release(b.ctx, owner, lost...))
	require.NoError(t, b.Store.Release(b.ctx, owner))
	require.Equal(t, epochs(t, taken), epochs(t, b.lease(other).Lanes))

	// The same owner may hold a lane again, in another epoch: the old release does not touch it.
	require.NoError(t, b.Store.Release(b.ctx, other))
	again := b.all()
	require.NoError(t, b.Store.Release(b.ctx, owner, lost...))
	require.Equal(t, epochs(t, again), epochs(t, b.all()))
}

func releaseUnknown[Tx any](t *testing.T, b *bench[Tx]) {
	before := epochs(t, b.all())
	require.NoError(t, b.Store.Release(b.ctx, "nobody"))
	require.Equal(t, before, epochs(t, b.all()))
}
