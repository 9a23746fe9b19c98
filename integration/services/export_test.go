package services

// RocketMQServes asks a name server and its brokers whether they serve.
var RocketMQServes = rocketmqReady
