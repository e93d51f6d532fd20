package shop;

import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;

@Entity
@Table(name = "orders")
class Order {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Long id;

    String customer;
    long cents;

    protected Order() {} // for Hibernate

    Order(String customer, long cents) {
        this.customer = customer;
        this.cents = cents;
    }
}
