package remoting

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// sign adds to fields, those of a request without a body, what a broker with access control demands: the key, and a
// signature over all values in the order of their names. Without a key it adds nothing.
func sign(fields map[string]string, credentials primitive.Credentials) map[string]string {
	if credentials.AccessKey == "" {
		return fields
	}
	fields["AccessKey"] = credentials.AccessKey
	if credentials.SecurityToken != "" {
		fields["SecurityToken"] = credentials.SecurityToken
	}
	mac := hmac.New(sha1.New, []byte(credentials.SecretKey))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		mac.Write([]byte(fields[name]))
	}
	fields["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return fields
}
