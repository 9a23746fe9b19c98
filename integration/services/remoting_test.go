package services

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMasterAddressReadsBareAndQuotedKeys(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:20911",1:"127.0.0.1:20999",10:"127.0.0.1:9"},"brokerName":"a"}}}`,
		`{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"127.0.0.1:20911","1":"127.0.0.1:20999","10":"127.0.0.1:9"}}}}`,
	} {
		found := masterAddress.FindAllStringSubmatch(body, -1)
		require.Len(t, found, 1)
		require.Equal(t, "127.0.0.1:20911", found[0][1])
	}
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	frame := func(header, body string) *bytes.Reader {
		bytesOf := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
		bytesOf = binary.BigEndian.AppendUint32(bytesOf, uint32(len(header)))
		return bytes.NewReader(append(bytesOf, header+body...))
	}
	body, err := readAnswer(frame(`{"code":0}`, "body"))
	require.NoError(t, err)
	require.Equal(t, "body", string(body))

	_, err = readAnswer(frame(`{"code":17,"remark":"no topic"}`, ""))
	require.ErrorContains(t, err, "no topic")

	_, err = readAnswer(bytes.NewReader([]byte{0, 0, 0, 4, 0, 0, 0, 9}))
	require.ErrorContains(t, err, "frame of 4 bytes")
}
